package plugin

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func nodeSet(index uint32, name string) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: index, Node: &contractv1.Node{Name: name}}}}
}

// twoBundles is a profile over the WASM guest and the process that hangs when
// it hears of a node named hang.
func twoBundles(t *testing.T) Config {
	cfg := testConfig(t, manifest.TransportWASM, "FitsCPU", "NotRed")
	cfg.Bundles = append(cfg.Bundles, BundleConfig{Name: "plain", Transport: manifest.TransportProcess, Timeout: time.Second / 2})
	return cfg
}

func objectOf(h *Host, name string) v1alpha1.Plugin {
	for _, o := range h.Plugins() {
		if o.Name == name {
			return o
		}
	}
	return v1alpha1.Plugin{}
}

func poll(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// A process that hangs while it takes a delta holds the cycle for one call. It
// is restarted and fed while the cycle goes on, in which it hangs again; the
// other bundle answers all the time. When the cause is gone it comes back.
func TestProcessHangsInApply(t *testing.T) {
	source := &testSource{delta: replica(5, 1)}
	h := runHost(t, twoBundles(t), source)
	p := h.Source("s").Policy()
	if err := p.Apply(t.Context(), source.delta); err != nil {
		t.Fatal(err)
	}
	waitSound(t, p, 1)
	before := p.Generation()

	hang := proto.Clone(source.delta).(*contractv1.Delta)
	hang.Generation = 2
	hang.Operations = append(hang.Operations, nodeSet(5, "hang"))
	source.set(hang)
	calls := 0
	cycle := func(generation uint64, operations ...*contractv1.Operation) {
		t.Helper()
		calls++
		if err := p.Apply(t.Context(), &contractv1.Delta{Generation: generation, Operations: operations}); err != nil {
			t.Fatal(err)
		}
		out := make([]uint32, 1)
		if err := p.Filter(t.Context(), 0, 7, []uint32{0}, out); err != nil || out[0] != 0 {
			t.Fatalf("cycle %d: the other bundle does not answer: %d, %v", calls, out[0], err)
		}
		if err := p.Filter(t.Context(), 1, 7, []uint32{0}, out); err != nil || out[0] == 0 {
			t.Fatalf("cycle %d: a predicate that hangs let a node pass: %v", calls, err)
		}
		if got := p.Reasons(1, out[0]); len(got) != 1 || got[0] != "plugin NotRed is not available" {
			t.Errorf("reasons %q", got)
		}
	}
	cycle(2, nodeSet(5, "hang"))
	if p.Generation() == before {
		t.Error("cached answers were not voided")
	}
	// It hangs in each of its next lives; a hundred cycles would take minutes if
	// they waited for it.
	poll(t, "it is restarted and hangs again", func() bool { return objectOf(h, "NotRed").Status.Restarts >= 2 })
	began := time.Now()
	for generation := uint64(3); generation < 103; generation++ {
		next := proto.Clone(source.delta).(*contractv1.Delta)
		next.Generation = generation
		source.set(next)
		cycle(generation)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("%d cycles took %s", calls, took)
	}

	sound := proto.Clone(replica(5, 103)).(*contractv1.Delta)
	source.set(sound)
	if err := p.Apply(t.Context(), &contractv1.Delta{Generation: 103, Operations: []*contractv1.Operation{
		{Op: &contractv1.Operation_NodeRemove{NodeRemove: 5}}}}); err != nil {
		t.Fatal(err)
	}
	waitSound(t, p, 1)
}

// A process that stands still is noticed by a question in which deltas travel.
func TestProcessStandsStill(t *testing.T) {
	source := &testSource{delta: replica(5, 1)}
	h := runHost(t, testConfig(t, manifest.TransportProcess, "FitsCPU", "MatchesLabels"), source)
	p := h.Source("s").Policy().(*Policy)
	if err := p.Apply(t.Context(), source.delta); err != nil {
		t.Fatal(err)
	}
	waitSound(t, p, 0)
	hurry(t, p, time.Second)
	halt(t, int(objectOf(h, "FitsCPU").Status.PID))
	full := proto.Clone(source.delta).(*contractv1.Delta)
	full.Generation = 2
	source.set(full)
	if err := p.Apply(t.Context(), &contractv1.Delta{Generation: 2}); err != nil {
		t.Fatal(err)
	}
	e := &contractv1.Evaluation{Class: 7, Nodes: []uint32{0, 1}, Filters: []contractv1.FilterQuestion{{Predicate: 0}, {Predicate: 1}}}
	p.Evaluate(t.Context(), e)
	if e.Filters[0].Answered != nil {
		t.Fatalf("a process that stands still answered %v", e.Filters[0].Verdicts)
	}
	waitSound(t, p, 0)
	if restarts := objectOf(h, "FitsCPU").Status.Restarts; restarts != 1 {
		t.Errorf("%d restarts, want 1", restarts)
	}
}

// A replica that takes many calls' time to hand over is no reason to restart
// what takes it, and asking meanwhile is answered "not available". One call that the
// machine itself held up for too long is: then all is tried again, and calls may take
// twice the time as long as the replica takes several of them.
func TestLargeReplicaIsFedInParts(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			deadline := time.Now().Add(2 * time.Minute)
			for call := 100 * time.Millisecond; ; {
				took, st := feedLarge(t, transport, call)
				if st.Restarts == 0 && st.State == v1alpha1.PluginStateReady {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("it was taken for hung in %s with calls of %s: %+v", took, call, st)
				}
				if took >= 4*call {
					call *= 2
				}
			}
		})
	}
}

// feedLarge has a plugin take a large replica three times over and then answer, and
// returns how long the replicas took and what the host says of the plugin.
func feedLarge(t *testing.T, transport string, call time.Duration) (time.Duration, v1alpha1.PluginStatus) {
	const n = 10_000
	source := &testSource{delta: replica(n, 1)}
	cfg := testConfig(t, transport, "FitsCPU")
	cfg.CallTimeout, cfg.MemoryLimit = call, 256<<20
	h := runHost(t, cfg, source)
	p := h.Source("s").Policy().(*Policy)
	began := time.Now()
	for generation := uint64(1); generation < 4; generation++ {
		source.set(replica(n, generation))
		delta := &contractv1.Delta{Generation: generation}
		if generation == 1 {
			delta = source.Replica()
		}
		if err := p.Apply(t.Context(), delta); err != nil {
			t.Fatal(err)
		}
	}
	poll(t, "it is prepared", func() bool { return p.Prepared(t.Context()) })
	took := time.Since(began)
	select {
	case <-p.inUse:
	default:
		t.Error("prepared, but not in use")
	}
	out := make([]uint32, 3)
	poll(t, "it answers", func() bool {
		return p.Filter(t.Context(), 0, 7, []uint32{0, 2, n - 1}, out) == nil && out[0] == 0
	})
	if out[1] == 0 {
		t.Errorf("verdicts %v", out)
	}
	return took, objectOf(h, "FitsCPU").Status
}

func TestSplit(t *testing.T) {
	many := &contractv1.Delta{Generation: 9, Reset_: true}
	for i := range 2*guest.PartOperations + 1 {
		many.Operations = append(many.Operations, nodeSet(uint32(i), fmt.Sprint("n", i)))
	}
	heavy := &contractv1.Delta{Generation: 9}
	for i := range 5 {
		heavy.Operations = append(heavy.Operations, nodeSet(uint32(i), string(make([]byte, guest.PartBytes/2))))
	}
	for _, c := range []struct {
		name  string
		delta *contractv1.Delta
		want  []int
	}{
		{"nothing", &contractv1.Delta{Generation: 9, Reset_: true}, []int{0}},
		{"many", many, []int{guest.PartOperations, guest.PartOperations, 1}},
		{"heavy", heavy, []int{1, 1, 1, 1, 1}},
	} {
		parts, err := guest.Split(c.delta)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		joined := &contractv1.Delta{Generation: 9, Reset_: c.delta.Reset_}
		for k, p := range parts {
			got = append(got, len(p.Delta.Operations))
			joined.Operations = append(joined.Operations, p.Delta.Operations...)
			if p.Delta.Generation != 9 || p.Delta.Reset_ != (c.delta.Reset_ && k == 0) {
				t.Errorf("%s: part %d has generation %d, reset %v", c.name, k, p.Delta.Generation, p.Delta.Reset_)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) || !proto.Equal(joined, c.delta) {
			t.Errorf("%s: parts of %v operations, want %v", c.name, got, c.want)
		}
	}
}
