package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
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
	// Preempt returns which of the victims, by node, may be.
	Preempt(ctx context.Context, pod *v1.Pod, victims map[string][]*v1.Pod) (map[string][]types.UID, error)
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
func (w *wholeNodes) list(s *snapshot, indexes []uint32) []*v1.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]*v1.Node, 0, len(indexes))
	for _, i := range indexes {
		name := s.byIndex[i].name
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

// extended decides about a pod with extenders, when the plugins left nodes: one
// filters what the one before left, and the scores of all are added up. The class
// keeps what its plugins answered and nothing of what extenders did.
func (s *Scheduler) extended(ctx context.Context, p *podEntry, c *class, filters, scorers []Extender, d *Decision) (*nodeEntry, error) {
	left, refused, by, err := s.extendersLeave(ctx, p.pod, c, filters)
	if err != nil {
		return nil, err
	}
	d.Feasible = len(left)
	for _, name := range by {
		d.Outcomes = append(d.Outcomes, Outcome{Point: "filter", Plugin: "Extender " + name, Code: codeNames[contractv1.Code_UNSCHEDULABLE]})
	}
	if len(left) == 0 {
		d.Message, p.failed = unfit(s.snapshot.count, c.reasons(refused)), extenderFailure
		if s.cfg.Explain > 0 {
			fit := c.fit
			c.fit = nil // the decision was made on no node's scores
			d.evidence = c.evidence(s.snapshot, 0, 0)
			c.fit = fit
		}
		return nil, nil
	}
	// Scores are normalised over the nodes that are left, and extenders' are in the
	// tally for this decision alone.
	fit := c.fit
	c.fit = left
	c.renormalize()
	defer func() {
		c.fit = fit
		c.renormalize()
	}()
	if _, err := c.totals(ctx); err != nil {
		c.forget()
		return nil, err
	}
	if len(left) > 1 && len(scorers) > 0 {
		s.extendersScore(ctx, p.pod, c, scorers)
	}
	index, total := c.tally.nth(0), c.tally.most
	if c.tally.tied > 1 {
		index = c.tally.nth(s.random.IntN(c.tally.tied))
	}
	s.priorityTrouble(c, d.Time)
	d.Total = total
	if s.cfg.Explain > 0 {
		d.evidence = c.evidence(s.snapshot, index, total)
	}
	return s.snapshot.byIndex[index], nil
}

// extenderFailure is that of a pod which extenders refused: nobody knows what can
// help it, so that anything may.
var extenderFailure = newFailure([]rejector{{"Extender", []*contractv1.Interest{{Kind: contractv1.KindAny, Actions: uint32(contractv1.Action_ALL)}}}})

// extendersLeave asks which of the nodes that fit are left, in their order, why
// others are not, and which extenders left some out.
func (s *Scheduler) extendersLeave(ctx context.Context, pod *v1.Pod, c *class, filters []Extender) (left []uint32, refused []string, by []string, err error) {
	left = c.fit
	for _, e := range filters {
		if len(left) == 0 {
			break
		}
		names, failed, hopeless, err := e.Filter(ctx, pod, s.whole.list(s.snapshot, left))
		switch {
		case ctx.Err() != nil:
			return nil, nil, nil, ctx.Err()
		case err != nil && e.Ignorable():
			s.trouble(fmt.Errorf("extender %s is left out: %w", e.Name(), err), s.clock.Now())
			continue
		case err != nil:
			return nil, nil, nil, err
		}
		there := make(map[string]bool, len(names))
		for _, name := range names {
			there[name] = true
		}
		next := make([]uint32, 0, len(names))
		for _, n := range left {
			name := s.snapshot.byIndex[n].name
			if there[name] {
				next = append(next, n)
				continue
			}
			if reason, known := hopeless[name]; known {
				refused = append(refused, reason)
			} else if reason, known := failed[name]; known {
				refused = append(refused, reason)
			}
		}
		if len(next) < len(left) {
			by = append(by, e.Name())
		}
		left = next
	}
	return left, refused, by, nil
}

// extendersScore adds the scores of extenders, all asked at once, to the totals. One
// that fails gives none.
func (s *Scheduler) extendersScore(ctx context.Context, pod *v1.Pod, c *class, scorers []Extender) {
	nodes := s.whole.list(s.snapshot, c.fit)
	answers, faults := make([]map[string]int64, len(scorers)), make([]error, len(scorers))
	var group sync.WaitGroup
	for i, e := range scorers {
		group.Go(func() { answers[i], faults[i] = e.Prioritize(ctx, pod, nodes) })
	}
	group.Wait()
	// Their scale is that of the plugins, as far as those score to more than 10.
	most := int64(extenderScale)
	for i := range c.priorities {
		most = max(most, c.priorities[i].Most())
	}
	for i, scores := range answers {
		if faults[i] != nil {
			s.trouble(fmt.Errorf("extender %s gives no scores: %w", scorers[i].Name(), faults[i]), s.clock.Now())
			continue
		}
		for _, n := range c.fit {
			c.tally.totals[n] += scores[s.snapshot.byIndex[n].name] * (most / extenderScale)
		}
	}
	c.tally.summariseAll()
	c.tally.lead()
}

// renormalize forgets totals, and scores that were normalised over other nodes.
func (c *class) renormalize() {
	for i := range c.moved {
		c.moved[i], c.unmeasured[i] = true, true
	}
	c.flipped, c.tallied = true, false
}

// reasons counts what the predicates said against nodes, with what extenders did.
func (c *class) reasons(refused []string) map[string]int {
	reasons := map[string]int{}
	for n, f := range c.fail {
		if f < 0 {
			continue
		}
		for _, reason := range c.policy.Reasons(int(f), c.verdicts[f][n]) {
			reasons[reason]++
		}
	}
	for _, reason := range refused {
		reasons[reason]++
	}
	return reasons
}

// extendersBind has the extender bind that does; bound: one did or tried. One after the other if they are
// ignorable.
func (s *Scheduler) extendersBind(ctx context.Context, pod *v1.Pod, b *v1.Binding) (bound bool, err error) {
	if pod == nil {
		return false, nil
	}
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

// extendersPreempt asks whether the victims on the node that was chosen may be, and
// returns those that are; an error says why none are.
func (s *Scheduler) extendersPreempt(ctx context.Context, pod *v1.Pod, node string, victims []*podEntry) ([]*podEntry, error) {
	if len(victims) == 0 {
		return victims, nil
	}
	for _, e := range s.interested(pod, Extender.Preempts) {
		var told []*v1.Pod
		for _, v := range victims {
			told = append(told, v.pod)
		}
		left, err := e.Preempt(ctx, pod, map[string][]*v1.Pod{node: told})
		switch {
		case err != nil && e.Ignorable() && ctx.Err() == nil:
			s.trouble(fmt.Errorf("extender %s is left out: %w", e.Name(), err), s.clock.Now())
			continue
		case err != nil:
			return nil, err
		case len(left[node]) == 0:
			return nil, fmt.Errorf("extender %s allows no victims on node %s", e.Name(), node)
		}
		victims = slices.DeleteFunc(slices.Clone(victims), func(v *podEntry) bool { return !slices.Contains(left[node], v.uid) })
	}
	return victims, nil
}
