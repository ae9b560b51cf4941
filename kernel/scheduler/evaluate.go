package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/resultcache"
)

// ErrUnknownPod is returned for a pod that the scheduler does not know: there
// is none of the name, or it has ended, or another scheduler places it.
var ErrUnknownPod = errors.New("the scheduler knows no such pod")

// ErrNotReady is returned while the scheduler has not seen the cluster, or its
// plugins are not ready.
var ErrNotReady = errors.New("the scheduler is not ready")

// ExplainOptions bound an explanation.
type ExplainOptions struct {
	// Nodes is how many nodes are told of; 0: all.
	Nodes int
	// Now asks for a fresh evaluation also where the decision is kept.
	Now bool
}

func (o ExplainOptions) limit() int {
	if o.Nodes <= 0 {
		return 1 << 30
	}
	return o.Nodes
}

// inspect runs f in the cycle, between two decisions.
func (s *Scheduler) inspect(ctx context.Context, f func(cycle context.Context)) error {
	done := make(chan struct{})
	wrapped := func(cycle context.Context) {
		defer close(done)
		if ctx.Err() == nil {
			f(cycle)
		}
	}
	select {
	case s.inspections <- wrapped:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Why explains a pod: a bound one by the decision that was made, as long as
// that is kept, everything else by asking every plugin about every node once,
// between two decisions. Errors: ErrUnknownPod, ErrNotReady, what ctx ends with.
func (s *Scheduler) Why(ctx context.Context, namespace, name string, o ExplainOptions) (*Explanation, error) {
	var x *Explanation
	var err error
	if ended := s.inspect(ctx, func(cycle context.Context) { x, err = s.why(cycle, namespace, name, o) }); ended != nil {
		return nil, fmt.Errorf("explain pod %s/%s: %w", namespace, name, ended)
	}
	return x, err
}

func (s *Scheduler) why(ctx context.Context, namespace, name string, o ExplainOptions) (*Explanation, error) {
	if s.unsynced > 0 {
		return nil, fmt.Errorf("%w: it has not seen the whole cluster yet", ErrNotReady)
	}
	var p *podEntry
	for _, e := range s.pods {
		if e.Name == name && e.Namespace == namespace {
			p = e
		}
	}
	d, kept := s.record.last(namespace, name)
	if p == nil {
		if kept && d.Node != "" {
			return d.explanation(o, "it has ended since"), nil
		}
		return nil, ErrUnknownPod
	}
	kept = kept && d.UID == p.UID
	if p.Node != "" && kept && d.Node == p.Node && !o.Now {
		x := d.explanation(o, "")
		x.Profile, x.State = p.Object.Spec.SchedulerName, p.state()
		return x, nil
	}
	x, err := s.evaluate(ctx, p, o)
	if err != nil {
		return nil, err
	}
	if kept {
		x.Attempt, x.Outcomes = d.Attempt, d.Outcomes
		if p.Node == "" {
			x.Message = d.Message
		}
	}
	if p.Node != "" {
		x.Note = "the decision is no longer kept; this is what the plugins say now, as if the pod were not there"
		if kept && d.Node == p.Node {
			x.Note = "what the plugins say now, as if the pod were not there"
		}
	}
	return x, nil
}

func (p *podEntry) state() string {
	switch {
	case p.assumed:
		return "binding"
	case p.Node != "":
		return "bound"
	case p.place == gated:
		return "gated"
	case p.place == unschedulable:
		return "unschedulable"
	case p.place == backingOff:
		return "back-off"
	}
	return "waiting"
}

// explanation tells a decision that was kept.
func (d *Decision) explanation(o ExplainOptions, note string) *Explanation {
	x := &Explanation{
		Namespace: d.Namespace, Pod: d.Name, State: "bound", Source: SourceDecision, Note: note, Time: d.Time, Attempt: d.Attempt,
		Nodes: d.Nodes, Feasible: d.Feasible, Node: d.Node, Message: d.Message, Outcomes: d.Outcomes,
	}
	if d.evidence != nil {
		tellEvidence(d.evidence, x, o.limit())
	}
	return x
}

// evaluate asks every plugin about every node for a pod; one that is on a node
// is taken off it for that long. The cycle waits, as for a decision whose class
// is new.
func (s *Scheduler) evaluate(ctx context.Context, p *podEntry, o ExplainOptions) (_ *Explanation, err error) {
	profile := s.profiles[p.Object.Spec.SchedulerName]
	if profile == nil || profile.removed {
		return nil, fmt.Errorf("%w: its schedulerName is %s, which is no profile of this kernel", ErrUnknownPod, p.Object.Spec.SchedulerName)
	}
	x := &Explanation{
		Namespace: p.Namespace, Pod: p.Name, Profile: p.Object.Spec.SchedulerName, State: p.state(), Source: SourceEvaluation,
		Time: s.clock.Now(), Attempt: p.attempts, Node: p.Node, Nodes: s.snapshot.Count,
	}
	onNode := x.Node != ""
	putBack := func() {
		if onNode {
			onNode = false
			s.snapshot.AddPod(&p.Pod, x.Node)
		}
	}
	if onNode {
		s.snapshot.RemovePod(&p.Pod)
	}
	s.begin(work{profile: profile, left: func() {
		putBack()
		s.abandonClass(p.shape.class)
	}})
	defer func() {
		if s.end(); onNode {
			putBack()
			err = errors.Join(err, s.flush(ctx))
		}
		if overtaken(ctx) {
			err = fmt.Errorf("%w: a plugin of profile %s did not answer within %s, and pods of other profiles went on; ask again", ErrNotReady, x.Profile, contractv1.YieldAfter)
		}
	}()
	c := s.classOf(p.shape)
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
	if profile.policy == nil {
		return nil, fmt.Errorf("%w: %w", ErrNotReady, errNoPolicy)
	}
	if s.snapshot.Count == 0 {
		x.Message = noNodes
		x.Plugins = pluginAccounts(profile.policy, profile.policy.Predicates(), profile.policy.Priorities())
		return x, nil
	}
	if err := c.Update(ctx, profile.policy, s.view); err != nil {
		return nil, err
	}
	if err := s.account(ctx, p, c, x, o); err != nil {
		return nil, err
	}
	if x.Node == "" {
		if len(c.Feasible()) == 0 {
			x.Message, _ = c.Why(s.snapshot.Count)
		}
		x.Note = s.rooms(p, c)
		if p.place == gated && len(p.Object.Spec.SchedulingGates) > 0 {
			x.Note = "it waits for its scheduling gates: " + gateNames(p.Object)
		}
	}
	return x, nil
}

func gateNames(pod *v1.Pod) string {
	out := ""
	for i, g := range pod.Spec.SchedulingGates {
		if i > 0 {
			out += ", "
		}
		out += g.Name
	}
	return out
}

// account asks for what the class has not: the verdicts of predicates after
// one that refused.
func (s *Scheduler) account(ctx context.Context, p *podEntry, c *resultcache.Class, x *Explanation, o ExplainOptions) error {
	message := p.shape.Message
	var nodes []uint32
	for n, e := range s.snapshot.ByIndex {
		if e != nil {
			nodes = append(nodes, uint32(n))
		}
	}
	x.Feasible = len(c.Feasible())
	x.Plugins = pluginAccounts(c.Policy(), c.PredicateInfos(), c.PriorityInfos())
	accounts := make([]NodeAccount, len(nodes))
	for k, n := range nodes {
		accounts[k] = NodeAccount{Node: s.snapshot.ByIndex[n].Name, Fits: c.Fits(n), Verdicts: make([]VerdictAccount, len(c.PredicateInfos()))}
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
					if l := lack(s.snapshot.ByIndex[n], message, reason); l != nil {
						v.Lacks = append(v.Lacks, *l)
					}
				}
			}
		}
	}
	x.Plugins = accountNarrowing(c.Narrowed(), c.Policy(), x.Plugins, accounts, nodes)
	said, restore, err := s.extendersSay(ctx, p, c)
	defer restore()
	if err != nil {
		return err
	}
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
			a.ScoresKept, a.Total = true, c.TotalOf(n)
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
		x.Change = change(accounts)
	} else if tied := c.Tied(); x.Node == "" {
		x.Why = fmt.Sprintf("%d of %d nodes fit now", x.Feasible, x.Nodes)
	} else if accounts[0].Chosen || tied > 1 {
		x.Why = s.whyNow(accounts, x, tied)
	} else {
		x.Why = fmt.Sprintf("%s would be the best now, with %d", accounts[0].Node, accounts[0].Total)
	}
	if x.Omitted = max(0, len(accounts)-o.limit()); x.Omitted > 0 {
		cut := len(accounts) - x.Omitted
		for _, a := range accounts[cut:] {
			if a.Chosen { // the pod's own node is always told of
				accounts[cut-1] = a
			}
		}
		accounts = accounts[:cut]
	}
	x.Details = accounts
	return nil
}

// whyNow says where the pod's own node stands today.
func (s *Scheduler) whyNow(accounts []NodeAccount, x *Explanation, tied int) string {
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
	return why(accounts[:min(len(accounts), max(2, x.Feasible))], x.Feasible, tied)
}
