package reconcile

import (
	"maps"
	"os"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// difference is one that is known: where upstream has a value, Pintle has another.
type difference struct {
	Script string `json:"script"`
	// Part is a line's name: "Deployment web status".
	Part string `json:"part"`
	// Upstream and Ours are the values; empty: there is no such line.
	Upstream string `json:"upstream,omitempty"`
	Ours     string `json:"ours,omitempty"`
	// Steps are those in which it differs; empty: all in which upstream has the value.
	Steps []string `json:"steps,omitempty"`
	// Reason says why it may stay.
	Reason string `json:"reason"`
}

func readDifferences(t *testing.T) []difference {
	t.Helper()
	raw, err := os.ReadFile("testdata/differences.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []difference
	if err := yaml.UnmarshalStrict(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.Reason == "" || d.Part == "" || d.Script == "" || d.Upstream == d.Ours {
			t.Fatalf("a difference without reason, script or part, or that is none: %+v", d)
		}
	}
	return all
}

// expect changes what was recorded to what is expected of Pintle. Differences that
// applied are marked: one that never does is listed for nothing.
func expect(recorded state, script, step string, known []difference, applied []bool) state {
	out := maps.Clone(recorded)
	for i, d := range known {
		value, has := recorded[d.Part]
		if d.Script != script || len(d.Steps) > 0 && !slices.Contains(d.Steps, step) || has != (d.Upstream != "") || value != d.Upstream {
			continue
		}
		if d.Upstream == "" && len(d.Steps) == 0 {
			continue // it would be in every step
		}
		applied[i] = true
		if d.Ours == "" {
			delete(out, d.Part)
		} else {
			out[d.Part] = d.Ours
		}
	}
	return out
}

func TestExpect(t *testing.T) {
	known := []difference{
		{Script: "s", Part: "a", Upstream: "1", Ours: "2"},
		{Script: "s", Part: "b", Upstream: "1"},
		{Script: "s", Part: "c", Ours: "3", Steps: []string{"x"}},
		{Script: "s", Part: "d", Upstream: "gone", Ours: "4"},
	}
	applied := make([]bool, len(known))
	if got := expect(state{"a": "1", "b": "1", "e": "5"}, "s", "x", known, applied); !maps.Equal(got, state{"a": "2", "c": "3", "e": "5"}) {
		t.Errorf("in the step: %v", got)
	}
	if got := expect(state{"a": "9"}, "s", "y", known, applied); !maps.Equal(got, state{"a": "9"}) {
		t.Errorf("in another step: %v", got)
	}
	if got := expect(state{"a": "1"}, "other", "x", known, applied); !maps.Equal(got, state{"a": "1"}) {
		t.Errorf("in another script: %v", got)
	}
	for i, want := range []bool{true, true, true, false} {
		if applied[i] != want {
			t.Errorf("difference %d applied: %v", i, applied[i])
		}
	}
}
