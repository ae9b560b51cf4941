package plugin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// SCH-11, SCH-12, SCH-16: predicates and priorities answer alike over WASM and
// process, for the whole replica and after a delta.
func TestPolicyAnswersAlike(t *testing.T) {
	const n = 40
	nodes := indexes(n)
	type answer struct {
		reasons [][]string
		scores  []int64
		normal  []int64
	}
	ask := func(t *testing.T, p contractv1.Policy) answer {
		t.Helper()
		var a answer
		for i := range p.Predicates() {
			out := make([]uint32, n)
			if err := p.Filter(t.Context(), i, 7, nodes, out); err != nil {
				t.Fatal(err)
			}
			for _, v := range out {
				if v == 0 {
					a.reasons = append(a.reasons, nil)
				} else {
					a.reasons = append(a.reasons, p.Reasons(i, v))
				}
			}
		}
		a.scores = make([]int64, n)
		if err := p.Score(t.Context(), 0, 7, nodes, a.scores); err != nil {
			t.Fatal(err)
		}
		a.normal = slices.Clone(a.scores)
		if err := p.Normalize(t.Context(), 0, 7, nodes, a.normal); err != nil {
			t.Fatal(err)
		}
		return a
	}
	var answers []answer
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			h := runHost(t, testConfig(t, transport, "FitsCPU", "MatchesLabels"), nil)
			p := h.Source("s").Policy()
			if err := p.Apply(t.Context(), replica(n, 1)); err != nil {
				t.Fatal(err)
			}
			first := ask(t, p)
			if got := first.reasons[2]; !slices.Equal(got, []string{"Insufficient cpu"}) {
				t.Errorf("node 2: reasons %q, want Insufficient cpu", got)
			}
			if got := first.reasons[n+3]; len(got) != 2 || got[1] != "second reason" {
				t.Errorf("node 3: reasons %q, want two", got)
			}
			if first.reasons[0] != nil || first.reasons[n] != nil {
				t.Errorf("node 0 does not fit: %q %q", first.reasons[0], first.reasons[n])
			}
			if want := int64(4000 + 1); first.scores[0] != want {
				t.Errorf("score of node 0 is %d, want %d", first.scores[0], want)
			}
			if slices.Max(first.normal) != sdk.MaxScore {
				t.Errorf("normalized scores %d do not reach %d", first.normal, sdk.MaxScore)
			}
			// A bind of a large pod fills node 0.
			if err := p.Apply(t.Context(), &contractv1.Delta{Generation: 2, Operations: []*contractv1.Operation{{
				Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: 0, Pod: &contractv1.Pod{Uid: "big", Requests: &contractv1.Resources{MilliCpu: 3900}}}},
			}}}); err != nil {
				t.Fatal(err)
			}
			second := ask(t, p)
			if second.reasons[0] == nil {
				t.Error("node 0 still fits after it was filled")
			}
			answers = append(answers, first, second)
		})
	}
	if len(answers) != 4 {
		t.Fatal("a transport did not answer")
	}
	for k := range 2 {
		w, p := answers[k], answers[k+2]
		if !slices.Equal(w.scores, p.scores) || !slices.Equal(w.normal, p.normal) ||
			!slices.EqualFunc(w.reasons, p.reasons, func(a, b []string) bool { return slices.Equal(a, b) }) {
			t.Errorf("round %d: WASM and process answer differently:\n%v\n%v", k, w, p)
		}
	}
}

// A module whose garbage would pass its ceiling, while what it holds does not,
// collects instead of failing.
func TestModuleCollectsBelowItsCeiling(t *testing.T) {
	source := &testSource{delta: replica(5, 1)}
	cfg := testConfig(t, manifest.TransportWASM, "Wastes")
	cfg.CallTimeout = 2 * time.Minute // it allocates much, and the machine may be slow
	h := runHost(t, cfg, source)
	p := h.Source("s").Policy()
	if err := p.Apply(t.Context(), source.delta); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		out := make([]uint32, 2)
		if err := p.Filter(t.Context(), 0, 7, []uint32{0, 1}, out); err != nil {
			t.Fatal(err)
		}
		if out[0] != 0 || out[1] != 0 {
			t.Fatalf("verdicts %d: %q", out, p.Reasons(0, max(out[0], out[1])))
		}
	}
}

// A hostile or faulty predicate fails closed, says so, and leaves the sound
// plugins of its own bundle working after the restart.
func TestHostileGuestsAreContained(t *testing.T) {
	for _, name := range []string{"LoopsForEver", "AllocatesWithoutEnd", "Panics", "Recurses"} {
		t.Run(name, func(t *testing.T) {
			source := &testSource{delta: replica(5, 1)}
			h := runHost(t, testConfig(t, manifest.TransportWASM, name, "FitsCPU"), source)
			p := h.Source("s").Policy()
			if err := p.Apply(t.Context(), source.delta); err != nil {
				t.Fatal(err)
			}
			hurry(t, p, time.Second)
			before := p.Generation()
			out := make([]uint32, 2)
			began := time.Now()
			if err := p.Filter(t.Context(), 0, 7, []uint32{0, 1}, out); err != nil {
				t.Fatal(err)
			}
			if time.Since(began) > time.Minute {
				t.Errorf("contained only after %s", time.Since(began))
			}
			for _, v := range out {
				if v == 0 {
					t.Fatal("a predicate that failed let a node pass")
				}
				if got := p.Reasons(0, v); len(got) != 1 || got[0] != "plugin "+name+" is not available" {
					t.Errorf("reasons %q", got)
				}
			}
			if p.Generation() == before {
				t.Error("cached answers were not voided")
			}
			waitSound(t, p, 1)
			var failures int64
			for _, o := range h.Plugins() {
				if o.Name == name {
					failures = o.Status.Failures
				}
			}
			if failures != 1 {
				t.Errorf("%d failures counted, want 1", failures)
			}
		})
	}
}

// waitSound polls until predicate i lets node 0 pass again.
func waitSound(t testing.TB, p contractv1.Policy, i int) {
	t.Helper()
	out := make([]uint32, 1)
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if err := p.Filter(t.Context(), i, 7, []uint32{0}, out); err == nil && out[0] == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("predicate %d did not come back: %q", i, p.Reasons(i, out[0]))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestIgnoredPredicateReturnsItsError(t *testing.T) {
	cfg := testConfig(t, manifest.TransportWASM, "Panics")
	cfg.Bundles[0].OnFailure = manifest.OnFailureIgnore
	h := runHost(t, cfg, nil)
	p := h.Source("s").Policy()
	if err := p.Apply(t.Context(), replica(1, 1)); err != nil {
		t.Fatal(err)
	}
	if !p.Predicates()[0].IgnoreFailure {
		t.Error("predicate is not marked as one to ignore")
	}
	out := []uint32{9}
	if err := p.Filter(t.Context(), 0, 7, []uint32{0}, out); err == nil || out[0] != 0 {
		t.Errorf("got %v and verdict %d, want an error and 0", err, out[0])
	}
}

// A process plugin that is killed comes back, is fed in full and counted.
func TestKilledProcessComesBack(t *testing.T) {
	source := &testSource{delta: replica(5, 1)}
	h := runHost(t, testConfig(t, manifest.TransportProcess, "FitsCPU"), source)
	p := h.Source("s").Policy()
	if err := p.Apply(t.Context(), source.delta); err != nil {
		t.Fatal(err)
	}
	waitSound(t, p, 0)
	pid := int(h.Plugins()[0].Status.PID)
	if pid <= 0 {
		t.Fatalf("pid %d", pid)
	}
	before := p.Generation()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for h.Plugins()[0].Status.PID == int32(pid) || h.Plugins()[0].Status.State != "Ready" {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come back: %+v", h.Plugins()[0].Status)
		}
		time.Sleep(10 * time.Millisecond)
	}
	waitSound(t, p, 0)
	st := h.Plugins()[0].Status
	if st.Restarts < 1 || p.Generation() == before {
		t.Errorf("restarts %d, generation %d (was %d)", st.Restarts, p.Generation(), before)
	}
}

// Hot swap: transport, weights and order change while a policy is in use; a
// configuration that cannot be is refused and changes nothing.
func TestReconfigure(t *testing.T) {
	source := &testSource{delta: replica(5, 1)}
	cfg := testConfig(t, manifest.TransportWASM, "FitsCPU")
	h := runHost(t, cfg, source)
	old := h.Source("s").Policy()
	if err := old.Apply(t.Context(), source.delta); err != nil {
		t.Fatal(err)
	}
	wrong := cfg
	wrong.Profiles = []Profile{{SchedulerName: "s", Predicates: []string{"NoSuch"}}}
	if err := h.Reconfigure(wrong); err == nil || !strings.Contains(err.Error(), `predicate "NoSuch"`) {
		t.Fatalf("got %v", err)
	}
	if h.Source("s").Policy() != old {
		t.Fatal("a refused configuration changed the policy")
	}
	next := testConfig(t, manifest.TransportProcess, "MatchesLabels", "FitsCPU")
	next.Profiles[0].Priorities[0].Weight = 5
	if err := h.Reconfigure(next); err != nil {
		t.Fatal(err)
	}
	p := h.Source("s").Policy()
	if p == old || len(p.Predicates()) != 2 || p.Priorities()[0].Weight != 5 {
		t.Fatalf("policy is not the new one: %+v %+v", p.Predicates(), p.Priorities())
	}
	// The new bundle missed everything: it is fed from the source.
	source.set(replica(5, 2))
	if err := p.Apply(t.Context(), &contractv1.Delta{Generation: 2}); err != nil {
		t.Fatal(err)
	}
	waitSound(t, p, 1)
}

func TestConfigureReachesThePlugin(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		cfg := testConfig(t, transport)
		cfg.Bundles[0].Config = []byte(`{"LeastCPU": 3}`)
		h := runHost(t, cfg, nil)
		p := h.Source("s").Policy()
		if err := p.Apply(t.Context(), replica(1, 1)); err != nil {
			t.Fatal(err)
		}
		out := make([]int64, 1)
		if err := p.Score(t.Context(), 0, 7, []uint32{0}, out); err != nil || out[0] != 3*4000+1 {
			t.Errorf("%s: score %d, %v; want %d", transport, out[0], err, 3*4000+1)
		}
	}
	cfg := testConfig(t, manifest.TransportWASM)
	cfg.Bundles[0].Config = []byte(`{"LeastCPU": "many"}`)
	h, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "configure LeastCPU") {
		t.Errorf("a configuration that the plugin refuses: %v", err)
	}
}

func TestDigestMismatch(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		cfg := testConfig(t, transport, "FitsCPU")
		cfg.Bundles[0].Digest = "sha256:" + strings.Repeat("0", 64)
		h, err := New(cfg, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		err = h.Run(context.Background())
		if !errors.Is(err, manifest.ErrDigest) || strings.Count(err.Error(), "\n") != 0 {
			t.Errorf("%s: got %v, want one line about the digest", transport, err)
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		h := runHost(b, testConfig(b, transport, "FitsCPU"), nil)
		p := h.Source("s").Policy()
		if err := p.Apply(b.Context(), replica(1000, 1)); err != nil {
			b.Fatal(err)
		}
		for _, n := range []int{1, 1000} {
			b.Run(transport+"/"+map[int]string{1: "1", 1000: "1000"}[n], func(b *testing.B) {
				nodes, out := indexes(n), make([]uint32, n)
				b.ReportAllocs()
				for b.Loop() {
					if err := p.Filter(b.Context(), 0, 7, nodes, out); err != nil || out[0] != 0 {
						b.Fatal(err, out[0])
					}
				}
			})
		}
	}
}

func BenchmarkApplyBind(b *testing.B) {
	h := runHost(b, testConfig(b, manifest.TransportWASM, "FitsCPU"), nil)
	p := h.Source("s").Policy()
	if err := p.Apply(b.Context(), replica(1000, 1)); err != nil {
		b.Fatal(err)
	}
	generation := uint64(1)
	pod := proto.Clone(replica(1, 1).Operations[1].GetPodAdd().Pod).(*contractv1.Pod)
	b.ReportAllocs()
	for b.Loop() {
		generation++
		if err := p.Apply(b.Context(), &contractv1.Delta{Generation: generation, Operations: []*contractv1.Operation{{
			Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: uint32(generation % 1000), Pod: pod}},
		}}}); err != nil {
			b.Fatal(err)
		}
	}
}
