package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"pintle.dev/pintle/kernel/scheduler/resultcache"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Evaluation is an answer that is made anew: every predicate about every node, and every
// priority about the nodes that fit.
type Evaluation struct {
	Class    *resultcache.Class
	Snapshot *snapshot.Snapshot
	Pod      *contractv1.Pod

	nodes    []uint32
	accounts []NodeAccount // parallel to nodes
}

// AskAll asks every predicate about every node. The class is up to date.
func (e *Evaluation) AskAll(ctx context.Context, x *Explanation) error {
	c := e.Class
	for n, node := range e.Snapshot.ByIndex {
		if node != nil {
			e.nodes = append(e.nodes, uint32(n))
		}
	}
	x.Feasible = len(c.Feasible())
	x.Plugins = PluginAccounts(c.Policy(), c.PredicateInfos(), c.PriorityInfos())
	nodes := e.nodes
	accounts := make([]NodeAccount, len(nodes))
	for k, n := range nodes {
		accounts[k] = NodeAccount{Node: e.Snapshot.ByIndex[n].Name, Fits: c.Verdicts().Fits(n), Verdicts: make([]VerdictAccount, len(c.PredicateInfos()))}
		accounts[k].Chosen = x.Node != "" && accounts[k].Node == x.Node
	}
	out := make([]uint32, len(nodes))
	for p := range c.PredicateInfos() {
		failure := c.Policy().Filter(ctx, p, c.Number(), nodes, out)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for k, n := range nodes {
			v := &accounts[k].Verdicts[p]
			v.Predicate, v.Answer = c.PredicateInfos()[p].Name, AnswerFits
			switch {
			case failure != nil:
				v.Answer, v.Reasons = AnswerFailed, []string{failure.Error()}
			case out[k] != 0:
				v.Answer, v.Reasons = AnswerRefuses, c.Policy().Reasons(p, out[k])
				x.Plugins[p].Refused++
				for _, reason := range v.Reasons {
					if l := lackOf(e.Snapshot.ByIndex[n], e.Pod, reason); l != nil {
						v.Lacks = append(v.Lacks, *l)
					}
				}
			}
		}
	}
	x.Plugins = accountNarrowing(c.Narrowed(), c.Policy(), x.Plugins, accounts, nodes)
	e.accounts = accounts
	return nil
}

// Complete fills in the explanation, with what extenders said; the totals of the class are
// made with theirs.
func (e *Evaluation) Complete(x *Explanation, said []*resultcache.ExtenderAnswer, o Options) {
	c, nodes, accounts := e.Class, e.nodes, e.accounts
	x.Feasible = len(c.Feasible())
	x.Plugins = extenderAccounts(x.Plugins, said)
	if len(c.Feasible()) > 0 {
		scores := make([]resultcache.NodeScore, 0, len(c.PriorityInfos()))
		at := map[uint32]int{}
		for k, n := range nodes {
			at[n] = k
		}
		for _, n := range c.Feasible() {
			a := &accounts[at[n]]
			a.ScoresKept, a.Total = true, c.Totals().Of(n)
			a.Scores = scoreAccounts(c.PriorityInfos(), c.AppendScores(scores[:0], n))
		}
	}
	for k, n := range nodes {
		accounts[k].extend(said, n)
	}
	slices.SortFunc(accounts, func(a, b NodeAccount) int {
		if a.Fits != b.Fits {
			if a.Fits {
				return -1
			}
			return 1
		}
		ap, ar := a.refusals()
		bp, br := b.refusals()
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(ap, bp), cmp.Compare(ar, br), cmp.Compare(a.Node, b.Node))
	})
	if len(c.Feasible()) == 0 {
		x.Change = changeFor(accounts)
	} else if tied := c.Totals().Tied(); x.Node == "" {
		x.Why = fmt.Sprintf("%d of %d nodes fit now", x.Feasible, x.Nodes)
	} else if accounts[0].Chosen || tied > 1 {
		x.Why = whyNow(accounts, x, tied)
	} else {
		x.Why = fmt.Sprintf("%s would be the best now, with %d", accounts[0].Node, accounts[0].Total)
	}
	if x.Omitted = max(0, len(accounts)-o.Limit()); x.Omitted > 0 {
		cut := len(accounts) - x.Omitted
		for _, a := range accounts[cut:] {
			if a.Chosen { // the pod's own node is always told of
				accounts[cut-1] = a
			}
		}
		accounts = accounts[:cut]
	}
	x.Details = accounts
}

// whyNow says where the pod's own node stands today.
func whyNow(accounts []NodeAccount, x *Explanation, tied int) string {
	own := slices.IndexFunc(accounts, func(a NodeAccount) bool { return a.Chosen })
	if own < 0 || !accounts[own].Fits {
		return fmt.Sprintf("%s would be the best now, with %d", accounts[0].Node, accounts[0].Total)
	}
	if accounts[own].Total == accounts[0].Total && tied > 1 {
		return fmt.Sprintf("%s is one of %d nodes with the best total now, %d", x.Node, tied, accounts[own].Total)
	}
	if own > 0 {
		return fmt.Sprintf("%s would be the best now, with %d; %s has %d", accounts[0].Node, accounts[0].Total, x.Node, accounts[own].Total)
	}
	return whyBest(accounts[:min(len(accounts), max(2, x.Feasible))], x.Feasible, tied)
}
