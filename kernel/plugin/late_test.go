package plugin

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// yieldingContext is one of who can do something else, which it does when it is told that
// an answer is late.
type yieldingContext struct {
	context.Context //nolint:containedctx // it is one
	others          func()
	done            chan struct{}
	yields, resumes atomic.Int32
	answered        atomic.Bool
	refuse          bool
	asked           atomic.Bool // to yield
	overtaken       atomic.Bool
}

func (c *yieldingContext) Value(key any) any {
	if key == contractv1.YielderKey {
		return c
	}
	return c.Context.Value(key)
}

func (c *yieldingContext) Err() error {
	if c.overtaken.Load() {
		return contractv1.Overtaken{}
	}
	return c.Context.Err()
}

func (c *yieldingContext) Yield() bool {
	c.asked.Store(true)
	if c.refuse {
		return false
	}
	c.yields.Add(1)
	c.done = make(chan struct{})
	go func() { c.others(); close(c.done) }()
	return true
}

// Resume waits for the others: who is held up by the question never ends.
func (c *yieldingContext) Resume(answered bool) {
	<-c.done
	c.resumes.Add(1)
	c.answered.Store(answered)
	c.overtaken.Store(true)
}

// TestBusy: while a plugin loops, or takes its time, deltas are
// taken in and other plugins answer; who asks it hears that it is busy. What came
// meanwhile is not lost.
func TestBusy(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		for name, answers := range map[string]bool{"LoopsForEver": false, "TakesItsTime": true} {
			t.Run(transport+"/"+name, func(t *testing.T) {
				cfg := testConfig(t, transport, "FitsCPU", name)
				cfg.Bundles = append(cfg.Bundles, BundleConfig{Name: "plain", Transport: manifest.TransportProcess})
				cfg.Profiles = append(cfg.Profiles, Profile{SchedulerName: "other", Predicates: []string{"NotRed"}})
				source := &testSource{delta: replica(5, 1)}
				h := runHost(t, cfg, source)
				p, other := h.Source("s").Policy(), h.Source("other").Policy()
				apply := func(d *contractv1.Delta) {
					for _, policy := range []contractv1.Policy{p, other} {
						if err := policy.Apply(t.Context(), d); err != nil {
							t.Error(err)
						}
					}
				}
				apply(source.delta)
				waitSound(t, p, 0)
				waitSound(t, other, 0)

				later := replica(6, 2)
				ctx := &yieldingContext{Context: t.Context(), others: func() {
					source.set(later)
					added := &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{
						Index: 5, Node: &contractv1.Node{Name: "n5", Allocatable: &contractv1.Resources{MilliCpu: 10}}}}}
					apply(&contractv1.Delta{Generation: 2, Operations: []*contractv1.Operation{added}})
					out := make([]uint32, 1)
					if err := other.Filter(t.Context(), 0, 7, []uint32{0}, out); err != nil || out[0] != 0 {
						t.Errorf("the other plugin answers %d, %v", out[0], err)
					}
					busy := &yieldingContext{Context: t.Context(), refuse: true}
					if err := p.Filter(busy, 0, 7, []uint32{0}, out); err != nil || out[0] != unavailableVerdict {
						t.Errorf("a bundle that is busy answers %d, %v", out[0], err)
					}
				}}
				if !answers {
					hurry(t, p, time.Second)
				}
				out := make([]uint32, 2)
				err := p.Filter(ctx, 1, 7, indexes(1), out[:1])
				if answers && (err != nil || out[0] == 0) || !answers && err == nil {
					t.Errorf("answered %v, %v", out, err)
				}
				if ctx.yields.Load() != 1 || ctx.resumes.Load() != 1 || ctx.answered.Load() != answers {
					t.Errorf("yielded %d, resumed %d times, answered %v", ctx.yields.Load(), ctx.resumes.Load(), ctx.answered.Load())
				}
				if err := p.Filter(ctx, 0, 7, []uint32{0}, out[:1]); err == nil {
					t.Error("a question that was overtaken is asked on")
				}
				if !answers {
					waitSound(t, p, 0)
				}
				if err := p.Filter(t.Context(), 0, 7, []uint32{0, 5}, out[:2]); err != nil || out[0] != 0 || out[1] == 0 {
					t.Errorf("after what came meanwhile: %v, %v", out[:2], err)
				}
				if got := p.Reasons(0, out[1]); len(got) != 1 || got[0] != "Insufficient cpu" {
					t.Errorf("reasons %q", got)
				}
			})
		}
	}
}

// TestUnitEndsWhileLate: a module whose bundle ends, or is taken out of service, while
// its question is late is closed behind it.
func TestUnitEndsWhileLate(t *testing.T) {
	cfg := testConfig(t, manifest.TransportWASM, "TakesItsTime")
	source := &testSource{delta: replica(5, 1)}
	h := runHost(t, cfg, source)
	p := h.Source("s").Policy()
	if err := p.Apply(t.Context(), source.delta); err != nil {
		t.Fatal(err)
	}
	u := p.(*Policy).filters[0].unit
	ctx := &yieldingContext{Context: t.Context(), others: u.halt}
	out := make([]uint32, 2)
	err := p.Filter(ctx, 0, 7, indexes(1), out[:1])
	<-u.ended
	if ctx.resumes.Load() != 1 {
		t.Errorf("resumed %d times; %v", ctx.resumes.Load(), err)
	}
}
