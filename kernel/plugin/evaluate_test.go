package plugin

import (
	"slices"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Asked together, deltas first, plugins answer as they do one by one: nodes that
// a filter refused are left out, and a question that fails is left unanswered
// with those after it.
func TestEvaluateAnswersAlike(t *testing.T) {
	for _, transport := range []string{manifest.TransportProcess, manifest.TransportWASM} {
		t.Run(transport, func(t *testing.T) { evaluateAnswersAlike(t, transport) })
	}
}

func evaluateAnswersAlike(t *testing.T, transport string) {
	const n = 40
	nodes := indexes(n)
	h := runHost(t, testConfig(t, transport, "MatchesLabels", "FitsCPU", "Panics"), nil)
	p := h.Source("s").Policy().(*Policy)
	if err := p.Apply(t.Context(), replica(n, 1)); err != nil {
		t.Fatal(err)
	}
	// A bind of a large pod fills node 0; it travels with the questions.
	if err := p.Apply(t.Context(), &contractv1.Delta{Generation: 2, Operations: []*contractv1.Operation{{
		Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: 0, Pod: &contractv1.Pod{Uid: "big", Requests: &contractv1.Resources{MilliCpu: 3900}}}},
	}}}); err != nil {
		t.Fatal(err)
	}
	if len(p.units[0].queue) == 0 {
		t.Fatal("the delta did not wait for the question")
	}
	ask := func() *contractv1.Evaluation {
		e := &contractv1.Evaluation{Class: 7, Nodes: nodes,
			Filters: []contractv1.FilterQuestion{{Predicate: 0}, {Predicate: 1, Nodes: nodes[:n/2]}},
			Scores:  []contractv1.ScoreQuestion{{Priority: 0}}}
		p.Evaluate(t.Context(), e)
		return e
	}
	e := ask()
	left := nodes
	for _, q := range e.Filters {
		asked := q.Nodes
		if asked == nil {
			asked = nodes
		}
		asked = slices.DeleteFunc(slices.Clone(asked), func(n uint32) bool { return !slices.Contains(left, n) })
		out := make([]uint32, len(asked))
		if err := p.Filter(t.Context(), q.Predicate, 7, asked, out); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(q.Answered, asked) || !slices.Equal(q.Verdicts, out) {
			t.Fatalf("predicate %d:\ntogether %v: %v\nalone    %v: %v", q.Predicate, q.Answered, q.Verdicts, asked, out)
		}
		left = slices.DeleteFunc(slices.Clone(left), func(n uint32) bool {
			k := slices.Index(asked, n)
			return k >= 0 && out[k] != 0
		})
	}
	if slices.Contains(left, 0) || len(left) == 0 || len(left) == n {
		t.Errorf("nodes %v pass", left)
	}
	scores := make([]int64, len(left))
	if err := p.Score(t.Context(), 0, 7, left, scores); err != nil {
		t.Fatal(err)
	}
	if q := e.Scores[0]; !slices.Equal(q.Answered, left) || !slices.Equal(q.Scores, scores) {
		t.Errorf("scores together %v of %v, alone %v of %v", q.Scores, q.Answered, scores, left)
	}

	panics := &contractv1.Evaluation{Class: 7, Nodes: nodes[:2],
		Filters: []contractv1.FilterQuestion{{Predicate: 0}, {Predicate: 2}, {Predicate: 1}}, Scores: []contractv1.ScoreQuestion{{Priority: 0}}}
	p.Evaluate(t.Context(), panics)
	if panics.Filters[0].Answered == nil || panics.Filters[1].Answered != nil || panics.Filters[2].Answered != nil || panics.Scores[0].Answered != nil {
		t.Errorf("answers around one that panics: %+v", panics)
	}
	if ask().Scores[0].Answered == nil {
		t.Error("the bundle does not answer after one of its plugins panicked")
	}
	for _, o := range h.Plugins() {
		if want := map[string]int64{"MatchesLabels": 4, "FitsCPU": 3, "LeastCPU": 3}[o.Name]; want != o.Status.Calls {
			t.Errorf("%s: %d calls counted, want %d", o.Name, o.Status.Calls, want)
		}
	}
}

// A module that ends with a question to one of its plugins is held against that
// plugin, not against those that were asked in the same call.
func TestEvaluateBlamesOne(t *testing.T) {
	h := runHost(t, testConfig(t, manifest.TransportWASM, "FitsCPU", "LoopsForEver", "MatchesLabels"), nil)
	p := h.Source("s").Policy().(*Policy)
	if err := p.Apply(t.Context(), replica(4, 1)); err != nil {
		t.Fatal(err)
	}
	hurry(t, p, time.Second)
	p.Evaluate(t.Context(), &contractv1.Evaluation{Class: 7, Nodes: indexes(1),
		Filters: []contractv1.FilterQuestion{{Predicate: 0}, {Predicate: 1}, {Predicate: 2}}, Scores: []contractv1.ScoreQuestion{{Priority: 0}}})
	for name, s := range p.units[0].stats {
		if want := map[string]int64{"LoopsForEver": 1}[name]; s.failures.Load() != want {
			t.Errorf("%s: %d failures, want %d", name, s.failures.Load(), want)
		}
	}
}

// A pod that is told of by its class is what it is when it is told of in full,
// to guests that know classes and to those that do not.
func TestPodsOfAClass(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		for _, classes := range []bool{true, false} {
			h := runHost(t, testConfig(t, transport, "FitsCPU"), nil)
			p := h.Source("s").Policy().(*Policy)
			if err := p.Apply(t.Context(), replica(3, 1)); err != nil {
				t.Fatal(err)
			}
			if !classes {
				p.units[0].guest.(interface{ ForgetClasses() }).ForgetClasses()
			}
			add := func(generation uint64, node, class uint32, uid string) {
				if err := p.Apply(t.Context(), &contractv1.Delta{Generation: generation, Operations: []*contractv1.Operation{{
					Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: node, Class: class, Pod: &contractv1.Pod{
						Namespace: "d", Name: uid, Uid: uid, Requests: &contractv1.Resources{MilliCpu: 500}, NodeSelector: map[string]string{"disk": "ssd"},
					}}},
				}}}); err != nil {
					t.Fatal(err)
				}
			}
			// Class 7 asks for 500 of 4000 milli.
			out := make([]uint32, 1)
			for i := range 8 {
				if err := p.Filter(t.Context(), 0, 7, []uint32{0}, out); err != nil || out[0] != 0 {
					t.Fatalf("%s, classes %v, with %d pods: %v %q %v", transport, classes, i, out, p.Reasons(0, out[0]), err)
				}
				add(uint64(2+i), 0, 7, string(rune('a'+i)))
			}
			if err := p.Filter(t.Context(), 0, 7, []uint32{0}, out); err != nil || out[0] == 0 {
				t.Errorf("%s, classes %v: a full node fits, %v", transport, classes, err)
			}
		}
	}
}

// A process that was built before there was Evaluate is asked one by one, and
// misses no delta by it.
func TestEvaluateOfAnOldPlugin(t *testing.T) {
	h := runHost(t, twoBundles(t), nil)
	p := h.Source("s").Policy().(*Policy)
	if err := p.Apply(t.Context(), replica(3, 1)); err != nil {
		t.Fatal(err)
	}
	red := nodeSet(1, "n1")
	red.GetNodeSet().Node.Labels = map[string]string{"color": "red"}
	if err := p.Apply(t.Context(), &contractv1.Delta{Generation: 2, Operations: []*contractv1.Operation{red}}); err != nil {
		t.Fatal(err)
	}
	e := &contractv1.Evaluation{Class: 7, Nodes: indexes(3), Filters: []contractv1.FilterQuestion{{Predicate: 1}}}
	p.Evaluate(t.Context(), e)
	if e.Filters[0].Answered != nil {
		t.Errorf("it answered a call that it does not know: %+v", e)
	}
	out := make([]uint32, 3)
	if err := p.Filter(t.Context(), 1, 7, indexes(3), out); err != nil || out[0] != 0 || out[1] == 0 || out[2] != 0 {
		t.Errorf("verdicts %v, %v", out, err)
	}
	if e, ok := p.units[1].guest.(guest.Evaluator); !ok || e.Evaluates() {
		t.Error("it will be asked in vain again")
	}
}
