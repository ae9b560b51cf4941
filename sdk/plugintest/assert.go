package plugintest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Pod is the pod of the contract, under a name that needs no further import.
type Pod = contractv1.Pod

// Verdicts is node name → the reason why a pod does not fit; several are joined
// by "; ", and Fits is none.
type Verdicts map[string]string

// Fits is the reason of a node that can run the pod.
const Fits = ""

// WantVerdicts asks a predicate about every node and fails where the answer is
// another than want, which names every node of the cluster.
func (c *Cluster) WantVerdicts(t testing.TB, p sdk.Predicate, pod *Pod, want Verdicts) {
	t.Helper()
	got := Verdicts{}
	for node, reasons := range c.Filter(t, p, pod) {
		got[node] = strings.Join(reasons, "; ")
	}
	compare(t, p.Name, "says %q of node %s, want %q", got, want)
}

// Scores is node name → score.
type Scores map[string]int64

// WantScores asks a priority about every node and fails where the raw score is
// another than want, which names every node of the cluster.
func (c *Cluster) WantScores(t testing.TB, p sdk.Priority, pod *Pod, want Scores) {
	t.Helper()
	compare(t, p.Name, "scores %d for node %s, want %d", Scores(c.Score(t, p, pod)), want)
}

func compare[V comparable](t testing.TB, name, format string, got, want map[string]V) {
	t.Helper()
	for _, node := range slices.Sorted(maps.Keys(got)) {
		if w, ok := want[node]; !ok || w != got[node] {
			t.Errorf("%s "+format, name, got[node], node, w)
		}
	}
	for node := range want {
		if _, ok := got[node]; !ok {
			t.Errorf("there is no node %s in the cluster", node)
		}
	}
}
