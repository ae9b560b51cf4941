package plugin

import (
	"context"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/wasm"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// TestLateConfiguration: while a plugin takes a new configuration, deltas are taken in,
// other plugins answer, and whoever asks about the change hears that it is not over.
func TestLateConfiguration(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			cfg := testConfig(t, transport, "FitsCPU")
			cfg.Bundles = append(cfg.Bundles, BundleConfig{Name: "plain", Transport: manifest.TransportProcess})
			cfg.Profiles = append(cfg.Profiles, Profile{SchedulerName: "other", Predicates: []string{"NotRed"}})
			source := &testSource{delta: replica(5, 1)}
			h := runHost(t, cfg, source)
			before, other := h.Source("s").Policy(), h.Source("other").Policy()
			apply := func(d *contractv1.Delta, policies ...contractv1.Policy) {
				for _, policy := range policies {
					if err := policy.Apply(t.Context(), d); err != nil {
						t.Error(err)
					}
				}
			}
			apply(source.delta, before, other)
			waitPrepared(t, before)
			waitPrepared(t, other)

			cfg.Bundles[0].Config = []byte(`{"LeastCPU": 1007}`)
			done := make(chan error, 1)
			go func() { done <- h.Reconfigure(cfg) }()
			next, second := awaitOther(t, h, before), h.Source("other").Policy()
			ctx := &yieldingContext{Context: t.Context(), others: func() {
				source.set(replica(6, 2))
				added := &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{
					Index: 5, Node: &contractv1.Node{Name: "n5", Allocatable: &contractv1.Resources{MilliCpu: 10}}}}}
				apply(&contractv1.Delta{Generation: 2, Operations: []*contractv1.Operation{added}}, before, other, next, second)
				out := make([]uint32, 1)
				if err := other.Filter(t.Context(), 0, 7, []uint32{0}, out); err != nil || out[0] != 0 {
					t.Errorf("the other plugin answers %d, %v", out[0], err)
				}
				for _, p := range []contractv1.Policy{next, second} {
					if p.(contractv1.Preparing).Prepared(&yieldingContext{Context: t.Context(), refuse: true}) {
						t.Error("a policy is prepared whose plugin takes its configuration")
					}
				}
			}}
			if idle := (&yieldingContext{Context: t.Context(), refuse: true}); second.(contractv1.Preparing).Prepared(idle) || idle.asked.Load() {
				t.Error("a profile waits for a plugin that it does not ask")
			}
			prepared := next.(contractv1.Preparing).Prepared(ctx)
			if ctx.yields.Load() != 1 || ctx.resumes.Load() != 1 || !ctx.answered.Load() || prepared {
				t.Errorf("yielded %d, resumed %d times, answered %v, prepared %v", ctx.yields.Load(), ctx.resumes.Load(), ctx.answered.Load(), prepared)
			}
			waitPrepared(t, next)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			out := make([]int64, 1)
			if err := next.Score(t.Context(), 0, 7, []uint32{5}, out); err != nil || out[0] != 1007*10+1 {
				t.Errorf("score %v, %v behind the change", out, err)
			}
		})
	}
}

// TestLateForced: a configuration that is taken without the scheduler keeps nobody from
// the guest's bundle for longer than a question may.
func TestLateForced(t *testing.T) {
	cfg := testConfig(t, manifest.TransportWASM, "FitsCPU")
	h := runHost(t, cfg, nil)
	p := h.Source("s").policy.Load()
	cfg.Bundles[0].Config = []byte(`{"LeastCPU": 1007}`)
	done := make(chan error, 1)
	go func() { done <- h.Reconfigure(cfg) }()
	u := p.filters[0].unit
	poll(t, "the module is busy with it", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.lent != nil
	})
	if err := p.Apply(t.Context(), replica(5, 1)); err != nil {
		t.Error(err)
	}
	select {
	case <-done:
		t.Error("the delta waited for the configuration")
	default:
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestLateModuleBeside: while a module does not answer a question about a binding, or one
// by which it is tried, deltas do not wait for it.
func TestLateModuleBeside(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *Policy) error{
		"pre-bind": func(ctx context.Context, p *Policy) error {
			p.Cycle(ctx, cycleCall(cyclePod("p", "at", "pre-bind", "do", "hang"), contractv1.Point_PRE_BIND))
			return nil
		},
		"trial": func(ctx context.Context, p *Policy) error {
			return p.filters[0].unit.trial(ctx, &manifest.Entry{Name: "LoopsForEver", Kind: sdk.KindPredicate}, 7, []uint32{0})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p *Policy
			if name == "trial" {
				cfg := testConfig(t, manifest.TransportWASM, "LoopsForEver")
				source := &testSource{delta: replica(6, 1)}
				p = runHost(t, cfg, source).Source("s").policy.Load()
				if err := p.Apply(t.Context(), source.delta); err != nil {
					t.Fatal(err)
				}
			} else {
				p = cyclePolicy(t, manifest.TransportWASM)
			}
			waitPrepared(t, p)
			u, done := p.filters[0].unit, make(chan error, 1)
			u.mu.Lock()
			u.guest.(*wasm.Guest).Timeout, u.call = 5*time.Second, 5*time.Second
			u.mu.Unlock()
			go func() { done <- ask(context.Background(), p) }()
			poll(t, "the module is asked", func() bool {
				if !u.mu.TryLock() {
					return true
				}
				defer u.mu.Unlock()
				return u.lent != nil
			})
			for generation := uint64(2); generation < 5; generation++ {
				if err := p.Apply(t.Context(), &contractv1.Delta{Generation: generation}); err != nil {
					t.Error(err)
				}
			}
			select {
			case <-done:
				t.Error("deltas waited for the answer")
			default:
			}
			<-done
		})
	}
}

// TestStepsBehindALateAnswer: what was not asked as others had gone on has no answer,
// which is no failure of the plugin.
func TestStepsBehindALateAnswer(t *testing.T) {
	p := cyclePolicy(t, manifest.TransportWASM)
	waitPrepared(t, p)
	ctx := &yieldingContext{Context: t.Context()}
	ctx.overtaken.Store(true)
	c := cycleCall(cyclePod("p"), contractv1.Point_RESERVE, contractv1.Point_PERMIT)
	if p.Cycle(ctx, c); len(c.Results) != 0 {
		t.Errorf("answers %v", c.Results)
	}
	if p.Cycle(t.Context(), c); len(c.Results) != 2 || c.Results[1].GetCode() != contractv1.Code_SUCCESS {
		t.Errorf("asked again: %v", c.Results)
	}
}
