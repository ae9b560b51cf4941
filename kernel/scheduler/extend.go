package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// Extender is a server outside that takes part in the decisions about the pods it
// is interested in; kernel/extender's is one. Calls may come from several
// goroutines and end within a deadline of the extender's own.
type Extender interface {
	// Name tells extenders apart in what users are told.
	Name() string
	// Ignorable: a call that fails counts as none.
	Ignorable() bool
	Interested(pod *v1.Pod) bool
	Filters() bool
	Prioritizes() bool
	Binds() bool
	Preempts() bool
	// Filter returns the names of the nodes that are left, a subset of nodes, and
	// why others are not.
	Filter(ctx context.Context, pod *v1.Pod, nodes []*v1.Node) (left []string, failed, hopeless map[string]string, err error)
	// Prioritize returns scores of nodes on a scale of 0 to 10 times a weight.
	Prioritize(ctx context.Context, pod *v1.Pod, nodes []*v1.Node) (map[string]int64, error)
	Bind(ctx context.Context, binding *v1.Binding) error
	// Preempt returns which nodes are left, and which pods there may be victims.
	Preempt(ctx context.Context, pod *v1.Pod, victims map[string]*extenderv1.Victims) (map[string]*extenderv1.MetaVictims, error)
}

// extenderScale is what an extender's scores go up to.
const extenderScale = 10

// wholeNodes keeps the nodes as the API has them, for extenders. A nil one keeps
// nothing.
type wholeNodes struct {
	mu     sync.Mutex
	byName map[string]*v1.Node
}

func newWholeNodes(extenders []Extender) *wholeNodes {
	if len(extenders) == 0 {
		return nil
	}
	return &wholeNodes{byName: map[string]*v1.Node{}}
}

func (w *wholeNodes) set(n *v1.Node) {
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.byName[n.Name] = n
	}
}

func (w *wholeNodes) remove(name string) {
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.byName, name)
	}
}

// list returns nodes by index; one that is going is known by its name alone.
func (w *wholeNodes) list(s *snapshot.Snapshot, indexes []uint32) []*v1.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]*v1.Node, 0, len(indexes))
	for _, i := range indexes {
		name := s.ByIndex[i].Name
		n := w.byName[name]
		if n == nil {
			n = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		}
		list = append(list, n)
	}
	return list
}

// interested are the extenders that are asked about a pod.
func (s *Scheduler) interested(pod *v1.Pod, does func(Extender) bool) []Extender {
	var list []Extender
	for _, e := range s.deps.Extenders {
		if does(e) && e.Interested(pod) {
			list = append(list, e)
		}
	}
	return list
}

// boundOutside reports whether an extender binds a pod.
func (s *Scheduler) boundOutside(pod *v1.Pod) bool {
	return len(s.deps.Extenders) > 0 && len(s.interested(pod, Extender.Binds)) > 0
}

// extended decides about a pod with extenders, when the plugins left nodes: one
// filters what the one before left, and the scores of all are added up. The class
// keeps what its plugins answered and nothing of what extenders did.
func (s *Scheduler) extended(ctx context.Context, p *podEntry, c *resultcache.Class, filters, scorers []Extender, d *explain.Decision) (*snapshot.Node, error) {
	left, said, err := s.extendersLeave(ctx, p.Object, c.Feasible(), filters)
	if err != nil {
		return nil, err
	}
	d.Feasible = len(left)
	for _, e := range said {
		if len(e.Refused) > 0 {
			d.Outcomes = append(d.Outcomes, framework.Outcome{Point: "filter", Plugin: explain.ExtenderTitle(e.Name), Code: contractv1.CodeNames[contractv1.Code_UNSCHEDULABLE]})
		}
	}
	if len(left) == 0 {
		d.Message, p.failed = resultcache.UnfitMessage(s.snapshot.Count, c.Verdicts().CountReasons(said)), extenderFailure
		if s.cfg.Explain > 0 {
			d.Snapshot = c.DecisionSnapshotOfNone(s.view)
			d.Snapshot.Extenders = said
		}
		return nil, nil
	}
	// Scores are normalised over the nodes that are left, and extenders' are in the
	// totals for this decision alone.
	defer c.Restrict(left)()
	if _, err := c.UpdateTotals(ctx); err != nil {
		c.Forget()
		return nil, err
	}
	if len(left) > 1 && len(scorers) > 0 {
		said = append(said, s.extendersScore(ctx, p.Object, c, scorers)...)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	index, total := c.Totals().Nth(0), c.Totals().Best()
	if c.Totals().Tied() > 1 {
		index = c.Totals().Nth(s.random.IntN(c.Totals().Tied()))
	}
	s.priorityTrouble(c, d.Time)
	d.Total = total
	if s.cfg.Explain > 0 {
		d.Snapshot = c.DecisionSnapshot(s.view, index, total)
		d.Snapshot.Extenders = said
	}
	return s.snapshot.ByIndex[index], nil
}

// extenderFailure is that of a pod which extenders refused: nobody knows what can
// help it, so that anything may.
var extenderFailure = framework.NewFailure([]framework.Rejector{{Name: "Extender", Interests: []*contractv1.Interest{{Kind: contractv1.KindAny, Actions: uint32(contractv1.Action_ALL)}}}})

// extendersLeave asks which of the nodes that fit are left, in their order, and notes
// what each extender said about the others.
func (s *Scheduler) extendersLeave(ctx context.Context, pod *v1.Pod, fit []uint32, filters []Extender) (left []uint32, said []*resultcache.ExtenderAnswer, err error) {
	left = fit
	for _, e := range filters {
		if len(left) == 0 {
			break
		}
		note := &resultcache.ExtenderAnswer{Name: e.Name(), Filters: true, Ignorable: e.Ignorable(), Refused: map[uint32][]string{}}
		said = append(said, note)
		var names []string
		var failed, hopeless map[string]string
		nodes := s.whole.list(s.snapshot, left)
		asking := beside(ctx)
		err := attended(ctx, func() (err error) {
			names, failed, hopeless, err = e.Filter(asking, pod, nodes)
			return err
		})
		if err != nil {
			note.Fault = err.Error()
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err != nil && e.Ignorable():
			s.trouble(fmt.Errorf("extender %s is left out: %w", e.Name(), err), s.clock.Now())
			continue
		case err != nil:
			return nil, said, err
		}
		there := make(map[string]bool, len(names))
		for _, name := range names {
			there[name] = true
		}
		next := make([]uint32, 0, len(names))
		for _, n := range left {
			name := s.snapshot.ByIndex[n].Name
			if there[name] {
				next = append(next, n)
				continue
			}
			note.Refused[n] = nil
			if reason, known := hopeless[name]; known {
				note.Refused[n] = []string{reason}
			} else if reason, known := failed[name]; known {
				note.Refused[n] = []string{reason}
			}
		}
		left = next
	}
	return left, said, nil
}

// extendersScore adds the scores of extenders, all asked at once, to the totals. One
// that fails gives none.
func (s *Scheduler) extendersScore(ctx context.Context, pod *v1.Pod, c *resultcache.Class, scorers []Extender) (said []*resultcache.ExtenderAnswer) {
	nodes := s.whole.list(s.snapshot, c.Feasible())
	answers, faults := make([]map[string]int64, len(scorers)), make([]error, len(scorers))
	s.deps.Metrics.scores(len(scorers))
	defer s.deps.Metrics.scores(-len(scorers))
	var group sync.WaitGroup
	asking := beside(ctx)
	for i, e := range scorers {
		group.Go(func() { answers[i], faults[i] = e.Prioritize(asking, pod, nodes) })
	}
	_ = attended(ctx, func() error {
		group.Wait()
		return errors.Join(faults...)
	})
	if ctx.Err() != nil {
		return nil // the nodes may be others now
	}
	// Their scale is that of the plugins, as far as those score to more than 10.
	most := c.MostScore(extenderScale)
	for i, scores := range answers {
		if faults[i] != nil {
			s.trouble(fmt.Errorf("extender %s gives no scores: %w", scorers[i].Name(), faults[i]), s.clock.Now())
			continue
		}
		note := &resultcache.ExtenderAnswer{Name: scorers[i].Name(), Scores: make(map[uint32]int64, len(c.Feasible()))}
		said = append(said, note)
		for _, n := range c.Feasible() {
			added := scores[s.snapshot.ByIndex[n].Name] * (most / extenderScale)
			c.Totals().Add(n, added)
			note.Scores[n] = added
		}
	}
	c.Totals().SumUp()
	return said
}

// extendersSay has extenders take part in an evaluation, as far as there are any for the
// pod, and makes the totals. Until restore is called the class is as they see it.
func (s *Scheduler) extendersSay(ctx context.Context, p *podEntry, c *resultcache.Class) (said []*resultcache.ExtenderAnswer, restore func(), err error) {
	restore = func() {}
	if len(c.Feasible()) == 0 {
		return nil, restore, nil
	}
	filters, scorers := s.interested(p.Object, Extender.Filters), s.interested(p.Object, Extender.Prioritizes)
	if len(filters)+len(scorers) > 0 {
		left, heard, err := s.extendersLeave(ctx, p.Object, c.Feasible(), filters)
		if ctx.Err() != nil {
			return nil, c.Restrict(c.Feasible()), ctx.Err()
		}
		if err != nil {
			left = nil // no pod goes anywhere while it fails
		}
		said, restore = heard, c.Restrict(left)
	}
	if len(c.Feasible()) == 0 {
		return said, restore, nil
	}
	if _, err := c.UpdateTotals(ctx); err != nil {
		c.Forget()
		return nil, restore, err
	}
	if len(scorers) > 0 {
		said = append(said, s.extendersScore(ctx, p.Object, c, scorers)...)
	}
	return said, restore, ctx.Err()
}

// extendersBind has the extender bind that does; bound: one did or tried. One after the other if they are
// ignorable.
func (s *Scheduler) extendersBind(ctx context.Context, pod *v1.Pod, b *v1.Binding) (bound bool, err error) {
	for _, e := range s.interested(pod, Extender.Binds) {
		err := e.Bind(ctx, b)
		if err != nil && e.Ignorable() && ctx.Err() == nil {
			s.log.Info("extender is left out of a binding", "extender", e.Name(), "pod", b.Namespace+"/"+b.Name, "err", err)
			continue
		}
		return true, err
	}
	return false, nil
}

// preempting are the extenders that have a say in a pod's victims.
func (s *Scheduler) preempting(pod *v1.Pod) []Extender {
	if len(s.deps.Extenders) == 0 {
		return nil
	}
	return s.interested(pod, Extender.Preempts)
}

// noCandidate are kube-scheduler's words for extenders that leave no node.
const noCandidate = "no candidate node for preemption"

// extendersTrim asks extenders, one after the other, about all candidates of a pod,
// and returns those that all of them leave, by the order of nodes.
func (s *Scheduler) extendersTrim(ctx context.Context, pod *v1.Pod, extenders []Extender, candidates []*contractv1.Candidate) ([]*contractv1.Candidate, error) {
	victims := make(map[string]*extenderv1.Victims, len(candidates))
	for _, c := range candidates {
		node := s.snapshot.ByIndex[c.GetNode()]
		v := &extenderv1.Victims{Pods: make([]*v1.Pod, 0, len(c.GetVictims())), NumPDBViolations: int64(c.GetViolations())}
		for _, uid := range c.GetVictims() {
			if p := node.Pods[types.UID(uid)]; p != nil {
				v.Pods = append(v.Pods, p.Object)
			}
		}
		victims[node.Name] = v
	}
	for _, e := range extenders {
		if len(victims) == 0 {
			return nil, nil
		}
		var answer map[string]*extenderv1.MetaVictims
		asking := beside(ctx)
		err := attended(ctx, func() (err error) {
			answer, err = e.Preempt(asking, pod, victims)
			return err
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var left map[string]*extenderv1.Victims
		if err == nil {
			left, err = s.agreed(e, answer)
		}
		switch {
		case err != nil && e.Ignorable():
			s.trouble(fmt.Errorf("extender %s is left out: %w", e.Name(), err), s.clock.Now())
		case err != nil:
			return nil, err
		default:
			victims = left
		}
	}
	trimmed := make([]*contractv1.Candidate, 0, len(victims))
	for name, v := range victims {
		c := &contractv1.Candidate{Node: s.snapshot.ByName[name].Index, Violations: uint32(max(v.NumPDBViolations, 0))}
		for _, p := range v.Pods {
			c.Victims = append(c.Victims, string(p.UID))
		}
		trimmed = append(trimmed, c)
	}
	slices.SortFunc(trimmed, func(a, b *contractv1.Candidate) int { return cmp.Compare(a.GetNode(), b.GetNode()) })
	return trimmed, nil
}

// agreed are the pods that an extender's answer names.
func (s *Scheduler) agreed(e Extender, answer map[string]*extenderv1.MetaVictims) (map[string]*extenderv1.Victims, error) {
	left := make(map[string]*extenderv1.Victims, len(answer))
	for name, meta := range answer {
		node := s.snapshot.ByName[name]
		if node == nil || node.Object == nil {
			return nil, fmt.Errorf("nodeinfo not found for node name %q", name)
		}
		v := &extenderv1.Victims{NumPDBViolations: meta.NumPDBViolations}
		for _, told := range meta.Pods {
			p := node.Pods[types.UID(told.UID)]
			if p == nil {
				return nil, fmt.Errorf("extender: %v claims to preempt pod (UID: %v) on node: %v, but the pod is not found on that node", e.Name(), told, name)
			}
			v.Pods = append(v.Pods, p.Object)
		}
		left[name] = v
	}
	return left, nil
}
