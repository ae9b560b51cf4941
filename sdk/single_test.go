package sdk

import (
	"errors"
	"slices"
	"strings"
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A question about one node is answered as set up for the one before as long as that
// stands, and as Filter and Score answer it.
func TestAskedAgain(t *testing.T) {
	g, err := GuestOf(
		Predicate{Name: "P", Configure: func([]byte) error { return nil }, Prepare: func(_ *Cluster, pod *Pod) any { return pod.Name }, Filter: func(r *Request) Verdict {
			switch {
			case r.Node.Name == "bad":
				panic("on purpose")
			case r.Node.Requested.Pods > 0:
				return Unfit("full for " + r.State.(string))
			}
			return Fits()
		}},
		Priority{Name: "S", Score: func(r *Request) int64 { return int64(len(r.Node.Name)) + r.Node.Requested.Pods }},
		Predicate{Name: "I", Idle: func(*Pod, any) bool { return false }, Filter: func(*Request) Verdict { return Fits() }},
	)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(ops ...*contractv1.Operation) {
		t.Helper()
		if err := g.Apply(encode(t, &contractv1.Delta{Operations: ops})); err != nil {
			t.Fatal(err)
		}
	}
	apply(node(0, &contractv1.Node{Name: "good"}), node(1, &contractv1.Node{Name: "bad"}), class(1, &contractv1.Pod{Name: "one"}), class(2, &contractv1.Pod{Name: "two"}))
	verdicts, scores := make([]uint32, 1), make([]int64, 1)
	filter := func(i int, class uint32) {
		t.Helper()
		if err := g.Filter(i, class, []uint32{0}, verdicts); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name string
		do   func()
		want bool
	}{
		{"never asked", func() {}, false},
		{"asked", func() { filter(0, 1) }, true},
		{"about another class", func() { filter(0, 2) }, false},
		{"asked", func() { filter(0, 1) }, true},
		{"a delta", func() { apply(podAdd(0, &contractv1.Pod{Uid: "u"})) }, false},
		{"asked", func() { filter(0, 1) }, true},
		{"another plugin", func() { filter(2, 1) }, false},
		{"one that may be idle", func() { g.single.at = 1; filter(2, 1) }, false},
		{"asked", func() { filter(0, 1) }, true},
		{"a priority", func() { _ = g.Score(1, 1, []uint32{0}, scores) }, false},
		{"asked", func() { filter(0, 1) }, true},
		{"an error", func() { _ = g.Filter(0, 1, []uint32{7}, verdicts) }, false},
		{"asked", func() { filter(0, 1) }, true},
		{"a configuration", func() { _ = g.Configure(0, nil) }, false},
		{"asked", func() { filter(0, 1) }, true},
	} {
		step.do()
		if got := g.again(0, 1); got != step.want {
			t.Errorf("%s: %t, want %t", step.name, got, step.want)
		}
	}
	var verdict uint32
	if err := g.filterAgain(0, &verdict); err != nil || verdict != verdicts[0] || !slices.Equal(g.Reasons(0, verdict), []string{"full for one"}) {
		t.Errorf("verdict %d, want %d: %v", verdict, verdicts[0], err)
	}
	if err := g.filterAgain(7, &verdict); !errors.Is(err, ErrNode) {
		t.Errorf("no such node: %v", err)
	}
	if err := g.filterAgain(1, &verdict); !errors.Is(err, ErrPanic) || !strings.Contains(err.Error(), "P: on purpose (single_test.go:") {
		t.Errorf("it panics: %v", err)
	}
	if g.again(0, 1) {
		t.Error("what panicked is set up again")
	}
	if err := g.Score(1, 1, []uint32{0}, scores); err != nil || !g.again(1, 1) {
		t.Fatal(err)
	}
	var score int64
	if err := g.scoreAgain(0, &score); err != nil || score != scores[0] || score != 5 {
		t.Errorf("score %d, want %d: %v", score, scores[0], err)
	}
	if err := g.scoreAgain(7, &score); !errors.Is(err, ErrNode) {
		t.Errorf("no such node: %v", err)
	}
}
