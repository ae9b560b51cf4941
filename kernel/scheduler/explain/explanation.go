package explain

import (
	"cmp"
	"slices"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
)

// Explanation says why a pod is where it is, or nowhere.
type Explanation struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Profile   string `json:"profile"`
	// State of the pod: bound, binding, waiting (for its turn), back-off,
	// unschedulable or gated; placed or not-placed in a simulation.
	State string `json:"state"`
	// Source: decision (as it was made, at Time) or evaluation (made for this answer).
	Source string    `json:"source"`
	Note   string    `json:"note,omitempty"`
	Time   time.Time `json:"time"`
	// Attempt counts the pod's decisions; 0: not known.
	Attempt int `json:"attempt,omitempty"`
	// Nodes and Feasible count the nodes there were and those that fit.
	Nodes    int    `json:"nodes"`
	Feasible int    `json:"feasible"`
	Node     string `json:"node,omitempty"`
	// Message of the last attempt that failed.
	Message string `json:"message,omitempty"`
	// Why says in words how the chosen node won.
	Why string `json:"why,omitempty"`
	// Plugins of the profile in its order: predicates, then priorities.
	Plugins []PluginAccount `json:"plugins,omitempty"`
	// Details of nodes, those that fit first, best first; then those with the
	// fewest refusals. Omitted counts the others.
	Details []NodeAccount `json:"details,omitempty"`
	Omitted int           `json:"omitted,omitempty"`
	// Change is what would have to change for a pod that fits nowhere.
	Change *Change `json:"change,omitempty"`
	// Outcomes are what plugins at points of the cycle beside predicates and
	// priorities said in the last decision, other than to let the pod pass.
	Outcomes []framework.Outcome `json:"outcomes,omitempty"`
	// Preemption is what post-filter plugins would do; only from Each.
	Preemption *Preemption `json:"preemption,omitempty"`
}

// Sources and answers of an Explanation.
const (
	SourceDecision   = "decision"
	SourceEvaluation = "evaluation"

	AnswerFits     = "fits"
	AnswerRefuses  = "refuses"
	AnswerNotAsked = "not asked"
	AnswerFailed   = "failed"
)

// PluginAccount is one plugin of the profile: who answered, in which version.
type PluginAccount struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Bundle    string `json:"bundle,omitempty"`
	Version   string `json:"version,omitempty"`
	Transport string `json:"transport,omitempty"`
	Digest    string `json:"digest,omitempty"`
	Weight    int64  `json:"weight,omitempty"`
	// Refused counts the nodes that a predicate refused; in a decision, only
	// those that no predicate before it had.
	Refused int `json:"refused,omitempty"`
}

// NodeAccount is what the plugins said about one node.
type NodeAccount struct {
	Node     string           `json:"node"`
	Fits     bool             `json:"fits"`
	Chosen   bool             `json:"chosen,omitempty"`
	Verdicts []VerdictAccount `json:"verdicts"`
	// Scores and Total of a node that fits. ScoresKept is false where a
	// decision did not keep them.
	ScoresKept bool           `json:"scoresKept"`
	Scores     []ScoreAccount `json:"scores,omitempty"`
	Total      int64          `json:"total"`
}

// VerdictAccount is one predicate's verdict on a node.
type VerdictAccount struct {
	Predicate string   `json:"predicate"`
	Answer    string   `json:"answer"`
	Reasons   []string `json:"reasons,omitempty"`
	// Lacks are the amounts behind reasons about resources.
	Lacks []Lack `json:"lacks,omitempty"`
}

// ScoreAccount is one priority's score of a node: as it answered, on the common
// scale from 0 to 10, and times its weight.
type ScoreAccount struct {
	Priority string `json:"priority"`
	Raw      int64  `json:"raw"`
	Score    int64  `json:"score"`
	Weight   int64  `json:"weight"`
	Weighted int64  `json:"weighted"`
}

// plugins lists who answers for a policy.
func PluginAccounts(policy contractv1.Policy, predicates []contractv1.PredicateInfo, priorities []contractv1.PriorityInfo) []PluginAccount {
	origin := func(string) contractv1.Origin { return contractv1.Origin{} }
	if o, ok := policy.(contractv1.Origins); ok {
		origin = o.Origin
	}
	out := make([]PluginAccount, 0, len(predicates)+len(priorities))
	add := func(name, kind string, weight int64) {
		a := accountOf(origin(name), name, kind)
		a.Weight = weight
		out = append(out, a)
	}
	for i := range predicates {
		add(predicates[i].Name, "predicate", 0)
	}
	for i := range priorities {
		add(priorities[i].Name, "priority", priorities[i].Weight)
	}
	return out
}

func accountOf(o contractv1.Origin, name, kind string) PluginAccount {
	return PluginAccount{Name: name, Kind: kind, Bundle: o.Bundle, Version: o.Version, Transport: o.Transport, Digest: o.Digest}
}

// Tell fills in an explanation from what a decision was made on.
func Tell(e *resultcache.DecisionSnapshot, x *Explanation, limit int) {
	x.Plugins = extenderAccounts(PluginAccounts(e.Policy, e.Predicates, e.Priorities), e.Extenders)
	kept := map[uint32]int{}
	for k, l := range e.Top {
		kept[l.Node] = k
	}
	type ranked struct {
		node uint32
		rank int // leaders, others that fit, refused late, refused early
	}
	var order []ranked
	for n := range uint32(min(e.Nodes(), len(e.Names))) {
		if !e.Considered(n) || e.Names[n] == "" {
			continue
		}
		r := ranked{n, 1 << 16}
		if k, ok := kept[r.node]; ok {
			r.rank = k
		} else if e.RefusedByExtender(r.node) {
			r.rank = 1<<16 + 1
		} else if predicate, _, refused := e.Refusal(n); refused {
			if predicate < len(e.Predicates) {
				x.Plugins[predicate].Refused++
			}
			r.rank = 1<<17 - predicate
		}
		order = append(order, r)
	}
	slices.SortFunc(order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(e.Names[a.node], e.Names[b.node]))
	})
	x.Omitted = max(0, len(order)-limit)
	for _, r := range order[:len(order)-x.Omitted] {
		x.Details = append(x.Details, nodeAccount(e, r.node, kept))
	}
	if len(e.Top) > 0 {
		best := make([]NodeAccount, len(e.Top))
		for k, l := range e.Top {
			best[k] = nodeAccount(e, l.Node, kept)
		}
		x.Why = whyBest(best, x.Feasible, e.Tied)
		if e.Partial {
			x.Why += "; a priority failed and counted 0"
		}
	}
}

func nodeAccount(e *resultcache.DecisionSnapshot, n uint32, kept map[uint32]int) NodeAccount {
	a := NodeAccount{Node: e.Names[n], Verdicts: make([]VerdictAccount, len(e.Predicates))}
	stop := len(e.Predicates)
	var reasons []string
	if a.Fits = e.Fits(n); !a.Fits {
		stop = -1
		if predicate, words, some := e.Refusal(n); some && predicate < len(e.Predicates) {
			stop, reasons = predicate, words
		}
	}
	for p := range e.Predicates {
		v := &a.Verdicts[p]
		v.Predicate, v.Answer = e.Predicates[p].Name, AnswerNotAsked
		switch {
		case p < stop:
			v.Answer = AnswerFits
		case p == stop:
			v.Answer, v.Reasons = AnswerRefuses, reasons
		}
	}
	if k, ok := kept[n]; ok {
		a.ScoresKept, a.Total, a.Chosen = true, e.Top[k].Total, n == e.Winner
		a.Scores = scoreAccounts(e.Priorities, e.Scores[k])
	}
	a.extend(e.Extenders, n)
	return a
}

func scoreAccounts(priorities []contractv1.PriorityInfo, scores []resultcache.NodeScore) []ScoreAccount {
	out := make([]ScoreAccount, len(priorities))
	for i := range priorities {
		w := priorities[i].Weight
		out[i] = ScoreAccount{Priority: priorities[i].Name, Raw: scores[i].Raw, Score: scores[i].Score, Weight: w, Weighted: w * scores[i].Score}
	}
	return out
}

// Preemption is what a post-filter plugin would do for a pod that fits nowhere:
// end the victims on the node, or nothing, for the reasons of the message.
type Preemption struct {
	Plugin  string   `json:"plugin"`
	Node    string   `json:"node,omitempty"`
	Victims []string `json:"victims,omitempty"` // namespace/name
	Message string   `json:"message,omitempty"`
}

// Options bound an explanation.
type Options struct {
	// Nodes is how many nodes are told of; 0: all.
	Nodes int
	// Now asks for a fresh evaluation also where the decision is kept.
	Now bool
}

func (o Options) Limit() int {
	if o.Nodes <= 0 {
		return 1 << 30
	}
	return o.Nodes
}
