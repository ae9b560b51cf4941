package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/scheduler/convert"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// freePolicy answers at no cost, so that what is measured is the scheduler's
// own work: as many plugins as the classic set has, all of node scope.
type freePolicy struct {
	predicates []PredicateInfo
	priorities []PriorityInfo
	load       []int64
}

func newFreePolicy(nodes int) *freePolicy {
	p := &freePolicy{load: make([]int64, nodes)}
	for i := range 10 {
		p.predicates = append(p.predicates, PredicateInfo{Name: fmt.Sprint("P", i), Scope: string(sdk.ScopeNode)})
	}
	for i, kind := range []sdk.Normalize{sdk.NormalizeNone, sdk.NormalizeNone, sdk.NormalizePlugin, sdk.NormalizeMax} {
		p.priorities = append(p.priorities, PriorityInfo{Name: fmt.Sprint("S", i), Scope: string(sdk.ScopeNode), Normalize: string(kind), Weight: 1})
	}
	return p
}

func (p *freePolicy) Generation() uint64           { return 1 }
func (p *freePolicy) Predicates() []PredicateInfo  { return p.predicates }
func (p *freePolicy) Priorities() []PriorityInfo   { return p.priorities }
func (p *freePolicy) Reasons(int, uint32) []string { return nil }
func (p *freePolicy) Policy() Policy               { return p }
func (p *freePolicy) Changed() <-chan struct{}     { return nil }

func (p *freePolicy) Apply(_ context.Context, delta *contractv1.Delta) error {
	for _, op := range delta.Operations {
		switch op := op.Op.(type) {
		case *contractv1.Operation_PodAdd:
			p.load[op.PodAdd.Node]++
		case *contractv1.Operation_PodRemove:
			p.load[op.PodRemove.Node]--
		}
	}
	return nil
}

func (p *freePolicy) Filter(_ context.Context, _ int, _ uint32, _, out []uint32) error {
	clear(out)
	return nil
}

func (p *freePolicy) Score(_ context.Context, i int, _ uint32, nodes []uint32, out []int64) error {
	for k, n := range nodes {
		if out[k] = 0; i == 0 {
			out[k] = max(0, 10-p.load[n]/4)
		}
	}
	return nil
}

func (p *freePolicy) Normalize(context.Context, int, uint32, []uint32, []int64) error { return nil }

// BenchmarkCycle is one pod of a class that is known: popped, decided, assumed,
// bound and seen bound, without sources and workers.
func BenchmarkCycle(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			policy := newFreePolicy(nodes)
			a := newAPI(b)
			s, err := New(Config{Seed: 1}, Deps{
				Pods: a.pods, Nodes: a.nodes, Profiles: map[string]PolicySource{schedulertest.ProfileName: policy}, Bind: a.bind,
			})
			if err != nil {
				b.Fatal(err)
			}
			for i := range nodes {
				s.snapshot.SetNode(convert.Node(schedulertest.MakeNode(fmt.Sprint("n", i), 4000, nil)))
			}
			pod := schedulertest.MakePod("p", 100, func(p *v1.Pod) { p.Labels = map[string]string{"app": "web"} })
			sh, err := newShape(pod)
			if err != nil {
				b.Fatal(err)
			}
			now := time.Now()
			cycle := func(i int) {
				p := *pod
				p.UID = types.UID(fmt.Sprint("u", i))
				s.setPod(&p, sh, now)
				s.schedule(b.Context(), s.queue.pop(now))
				r := <-s.binds
				s.bound(bindResult{uid: r.uid, node: r.node})
				seen := p
				seen.Spec.NodeName = r.node
				s.setPod(&seen, sh, now)
				if len(s.pods) > 10*nodes {
					for uid := range s.pods {
						s.removePod(uid)
						break
					}
				}
			}
			cycle(0)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				cycle(i + 1)
			}
		})
	}
}

// BenchmarkShape is the conversion of one pod as the reflector does it.
func BenchmarkShape(b *testing.B) {
	pod := schedulertest.MakePod("p", 100, func(p *v1.Pod) {
		p.Labels = map[string]string{"app": "web", "pod-template-hash": "abc"}
		p.Spec.Tolerations = []v1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"}, {Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute"}}
	})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := newShape(pod); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkThroughput runs the whole scheduler over fake sources, with the test
// plugins in process: pods added to all bound.
func BenchmarkThroughput(b *testing.B) {
	const nodes = 1000
	a := newAPI(b)
	var s *Scheduler
	policy := schedulertest.NewGuestPolicy(b, func() *contractv1.Delta { return s.Replica() }, []sdk.Predicate{schedulertest.SelectNode, schedulertest.FitCPU, schedulertest.ZoneVolume}, []sdk.Priority{schedulertest.LeastCPU, schedulertest.FewPods})
	s, err := New(Config{}, Deps{Pods: a.pods, Nodes: a.nodes, Profiles: map[string]PolicySource{schedulertest.ProfileName: newTestSource(policy)}, Bind: a.bind})
	if err != nil {
		b.Fatal(err)
	}
	for i := range nodes {
		a.nodes.Add(schedulertest.MakeNode(fmt.Sprint("n", i), 1_000_000, nil))
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	b.ResetTimer()
	go func() { done <- s.Run(ctx) }()
	for i := range b.N {
		a.addPod(schedulertest.MakePod(fmt.Sprint("p", i), 1))
	}
	for deadline := time.Now().Add(2 * time.Minute); len(a.bound()) < b.N; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d bound", len(a.bound()), b.N)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pods/s")
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
