package scheduler

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// tryBatch is how many nodes are tried at once.
const tryBatch = 64

// attempt is what a trial found out about a node for a class: the victims that
// would have to go, or why nothing helps.
type attempt struct {
	victims    []string // in the order of the plugin
	violations int      // of them violate a disruption budget
	proposed   []string // all that might go, of which the first violate one
	violating  int
	refused    resultcache.Verdict // it does not fit without all of them either
	reasons    []string            // there is nobody who might go

	rank   []int64 // how it compares with others; empty: it is not to be chosen
	ranked bool    // the plugin was asked
}

// does reports whether the pod would fit.
func (a *attempt) does() bool { return a.reasons == nil && a.refused.Fits() }

// trials are the attempts of a class, good as long as the nodes are not touched
// and nothing else changed that predicates or the plugin read.
type trials struct {
	plugin   string
	nodes    map[uint32]*attempt
	position uint64
	reads    uint64
	classGen uint64
	policy   Policy
}

// trialsOf are the attempts of a class that still hold.
func (s *Scheduler) trialsOf(sh *shape, info *contractv1.PointInfo) *trials {
	c := sh.class
	reads := s.snapshot.Version(info.Reads) + c.ReadVersion(s.view)
	t := sh.trials
	touched, ok := []snapshot.Touch(nil), false
	if t != nil {
		touched, ok = s.snapshot.Log.Since(t.position)
	}
	if t == nil || !ok || t.plugin != info.Name || t.reads != reads || t.policy != c.Policy() || t.classGen != c.Generation() {
		t = &trials{plugin: info.Name, nodes: map[uint32]*attempt{}, reads: reads, policy: c.Policy(), classGen: c.Generation()}
		sh.trials = t
	}
	for _, change := range touched {
		delete(t.nodes, change.Node)
	}
	t.position = s.snapshot.Log.End()
	return t
}

// startedOn forgets what was found out about a node on which a pod started: who is
// spared goes by that, and which node is chosen.
func (s *Scheduler) startedOn(node string) {
	e := s.snapshot.ByName[node]
	if e == nil || e.Object == nil {
		return
	}
	for _, sh := range s.cached {
		if sh.trials != nil {
			delete(sh.trials.nodes, e.Index)
		}
	}
}

// dryRun finds out on which nodes a pod would fit without which pods, in the order of
// the trial, until there are as many as wanted. Where predicates look beyond a
// node, each candidate is asked about alone if exact; otherwise they are asked
// about the one that is chosen. Attempts run parallel to the candidates.
func (s *Scheduler) dryRun(ctx context.Context, p *podEntry, c *resultcache.Class, at framework.Plugins, step contractv1.CycleStep, trial *contractv1.Trial, exact bool) (call *contractv1.CycleCall, attempts []*attempt, err error) {
	info := at.Info(step)
	t := s.trialsOf(p.shape, info)
	call = &contractv1.CycleCall{Class: c.Number(), Pods: []*contractv1.QueuedPod{p.queued()}, Steps: []contractv1.CycleStep{{Point: contractv1.Point_CHOOSE, Plugin: step.Plugin}}}
	refusals := resultcache.NewRefusals(c, call)
	clean := false
	for nodes := range slices.Chunk(trial.Nodes, tryBatch) {
		if err := s.tryNodes(ctx, p, c, at, step, t, nodes); err != nil {
			return nil, nil, err
		}
		for _, n := range nodes {
			a := t.nodes[n]
			if a == nil {
				continue // it is gone
			}
			// Of a node on which nobody has to go for the predicates of a node alone,
			// it is the others that refuse: without asking them it would be no candidate.
			if a.does() && c.LooksBeyond() && (exact || len(a.victims) == 0) {
				var err error
				if a, err = s.tryAlone(ctx, p, c, n, a); err != nil {
					return nil, nil, err
				}
			}
			switch {
			case a.reasons != nil:
				refusals.Add(n, a.refused, info.Name, a.reasons)
			case !a.does():
				refusals.Add(n, a.refused, "", nil)
			default:
				call.Candidates = append(call.Candidates, &contractv1.Candidate{Node: n, Victims: a.victims, Violations: uint32(a.violations)})
				attempts = append(attempts, a)
				clean = clean || a.violations == 0
			}
			if clean && len(call.Candidates) >= int(trial.GetWanted()) {
				return call, attempts, nil
			}
		}
	}
	return call, attempts, nil
}

// tryNodes tries those of the nodes that have no attempt yet, by the predicates
// that look at one node only.
func (s *Scheduler) tryNodes(ctx context.Context, p *podEntry, c *resultcache.Class, at framework.Plugins, step contractv1.CycleStep, t *trials, nodes []uint32) error {
	var ask []uint32
	for _, n := range nodes {
		if int(n) < len(s.snapshot.ByIndex) && s.snapshot.ByIndex[n] != nil && t.nodes[n] == nil {
			ask = append(ask, n)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	proposals, err := s.proposals(ctx, p, c, at, step, ask)
	if err != nil {
		return err
	}
	var runs []*run
	for k, n := range ask {
		a := proposals[k]
		if t.nodes[n] = a; a.reasons == nil {
			runs = append(runs, &run{node: n, entry: s.snapshot.ByIndex[n], attempt: a})
		}
	}
	err = s.spare(ctx, p, c, runs, resultcache.NodeScope)
	if err != nil || p.nominated != "" {
		// Its own nomination is left out for this pod alone.
		for _, r := range runs {
			if err != nil || r.entry.Name == p.nominated {
				defer delete(t.nodes, r.node)
			}
		}
	}
	return err
}

// proposals asks the plugin which pods of nodes may go.
func (s *Scheduler) proposals(ctx context.Context, p *podEntry, c *resultcache.Class, at framework.Plugins, step contractv1.CycleStep, nodes []uint32) ([]*attempt, error) {
	for _, n := range nodes {
		s.snapshot.TellStarts(s.snapshot.ByIndex[n])
	}
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
	call := &contractv1.CycleCall{
		Class: c.Number(), Pods: []*contractv1.QueuedPod{p.queued()}, Nodes: nodes,
		Steps: []contractv1.CycleStep{{Point: contractv1.Point_VICTIMS, Plugin: step.Plugin}},
	}
	at.Cycler.Cycle(ctx, call)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if stop := at.Stop(call); stop != nil {
		return nil, stop.Err()
	}
	list := make([]*attempt, len(nodes))
	for k, n := range nodes {
		a := &attempt{refused: resultcache.FitsNode}
		list[k] = a
		if len(call.Results) == 0 || k >= len(call.Results[0].GetCandidates()) {
			a.reasons = []string{"No preemption victims found for incoming pod"}
			continue
		}
		proposed := call.Results[0].GetCandidates()[k]
		node := s.snapshot.ByIndex[n]
		violations := int(proposed.GetViolations())
		for i, uid := range proposed.GetVictims() {
			// Only pods of this node with a lower priority are ever taken off it.
			if victim := node.Pods[types.UID(uid)]; victim != nil && victim.PriorityNow() < p.PriorityNow() && !slices.Contains(a.proposed, uid) {
				a.proposed = append(a.proposed, uid)
				if i < violations {
					a.violating++
				}
			}
		}
		if len(a.proposed) == 0 {
			a.reasons = append([]string{}, proposed.GetReasons()...)
		}
	}
	return list, nil
}

// run is an attempt while it is made.
type run struct {
	node  uint32
	entry *snapshot.Node
	*attempt
	away []string // victims that the replicas do not have on the node now
}

// spare takes all proposed victims off their nodes, and puts one after the other
// back as long as the pod fits. Afterwards the replicas are as they were.
func (s *Scheduler) spare(ctx context.Context, p *podEntry, c *resultcache.Class, runs []*run, scope func(*contractv1.PredicateInfo) bool) (err error) {
	defer func() {
		if ctx.Err() != nil {
			err = ctx.Err()
			return // the pods may be others now
		}
		var back []*contractv1.Operation
		for _, r := range runs {
			for _, uid := range r.away {
				back = append(back, snapshot.PodAdd(r.entry, r.entry.Pods[types.UID(uid)]))
			}
			r.away = nil
		}
		if undone := s.applyHypothetical(ctx, back); err == nil {
			err = undone
		}
	}()
	var pending []*contractv1.Operation
	for _, r := range runs {
		for _, uid := range r.proposed {
			pending = append(pending, snapshot.PodRemove(r.entry, uid))
		}
		r.away = slices.Clone(r.proposed)
	}
	if err := s.applyHypothetical(ctx, pending); err != nil {
		return err
	}
	answers, err := s.fitsBesides(ctx, p, c, runs, scope)
	if err != nil {
		return err
	}
	alive := runs[:0:0]
	for k, r := range runs {
		if r.refused = answers[k]; r.refused.Fits() {
			alive = append(alive, r)
		}
	}
	pending = nil
	for round := 0; ; round++ {
		var asked []*run
		for _, r := range alive {
			if round < len(r.proposed) {
				uid := r.proposed[round]
				pending = append(pending, snapshot.PodAdd(r.entry, r.entry.Pods[types.UID(uid)]))
				r.away = slices.DeleteFunc(r.away, func(other string) bool { return other == uid })
				asked = append(asked, r)
			}
		}
		if err := s.applyHypothetical(ctx, pending); err != nil {
			return err
		}
		pending = nil
		if len(asked) == 0 {
			return nil
		}
		answers, err := s.fitsBesides(ctx, p, c, asked, scope)
		if err != nil {
			return err
		}
		for k, r := range asked {
			if answers[k].Fits() {
				continue
			}
			uid := r.proposed[round]
			r.victims, r.away = append(r.victims, uid), append(r.away, uid)
			if round < r.violating {
				r.violations++
			}
			pending = append(pending, snapshot.PodRemove(r.entry, uid)) // goes with the next round
		}
	}
}

// fitsBesides judges the nodes of runs, with the pods that are nominated there
// and then without.
func (s *Scheduler) fitsBesides(ctx context.Context, p *podEntry, c *resultcache.Class, runs []*run, scope func(*contractv1.PredicateInfo) bool) ([]resultcache.Verdict, error) {
	nodes := make([]uint32, len(runs))
	var add, remove []*contractv1.Operation
	for k, r := range runs {
		nodes[k] = r.node
		for _, other := range s.snapshot.NomineesAbove(r.entry.Name, p.shape.Message.GetPriority(), &p.Pod) {
			add, remove = append(add, snapshot.PodAdd(r.entry, other)), append(remove, snapshot.PodRemove(r.entry, string(other.UID)))
		}
	}
	if err := s.applyHypothetical(ctx, add); err != nil {
		return nil, err
	}
	answers, err := c.WhatIf().Check(ctx, nodes, scope)
	if undone := s.applyHypothetical(ctx, remove); undone != nil {
		return nil, undone
	}
	if err != nil || len(add) == 0 {
		return answers, err
	}
	// What refused it beside the others is the answer, whatever comes of it without.
	var at []int
	nodes = nodes[:0]
	for k, r := range runs {
		if answers[k].Fits() {
			at, nodes = append(at, k), append(nodes, r.node)
		}
	}
	again, err := c.WhatIf().Check(ctx, nodes, scope)
	for k, answer := range again {
		answers[at[k]] = answer
	}
	return answers, err
}

// tryAlone asks all predicates about a node on which the pod would fit by those
// that look at one node, with nobody else taken off anywhere. If it fits both
// without all that may go and without those that have to, then adding them one by
// one changes nothing; otherwise they are spared one by one again.
func (s *Scheduler) tryAlone(ctx context.Context, p *podEntry, c *resultcache.Class, n uint32, a *attempt) (*attempt, error) {
	entry := s.snapshot.ByIndex[n]
	move := func(uids []string, op func(uid string) *contractv1.Operation) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		operations := make([]*contractv1.Operation, 0, len(uids))
		for _, uid := range uids {
			operations = append(operations, op(uid))
		}
		return s.applyHypothetical(ctx, operations)
	}
	add := func(uid string) *contractv1.Operation { return snapshot.PodAdd(entry, entry.Pods[types.UID(uid)]) }
	away := a.proposed
	if err := move(away, func(uid string) *contractv1.Operation { return snapshot.PodRemove(entry, uid) }); err != nil {
		return nil, err
	}
	alone := []*run{{node: n, entry: entry}}
	answers, err := s.fitsBesides(ctx, p, c, alone, resultcache.ClusterScope)
	if err == nil && answers[0].Fits() && len(a.victims) < len(a.proposed) {
		spared := slices.DeleteFunc(slices.Clone(a.proposed), func(uid string) bool { return slices.Contains(a.victims, uid) })
		if err = move(spared, add); err == nil {
			away = a.victims
			answers, err = s.fitsBesides(ctx, p, c, alone, resultcache.ClusterScope)
		}
	}
	if undone := move(away, add); undone != nil {
		return nil, undone
	}
	if err != nil {
		return nil, err
	}
	if answers[0].Fits() {
		return a, nil
	}
	whole := &attempt{proposed: a.proposed, violating: a.violating, refused: resultcache.FitsNode}
	return whole, s.spare(ctx, p, c, []*run{{node: n, entry: entry, attempt: whole}}, resultcache.AnyScope)
}
