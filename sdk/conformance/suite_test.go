package conformance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/artifact"
)

func opener(plugins ...any) Open {
	return func(context.Context) (artifact.Artifact, error) {
		g, err := sdk.GuestOf(plugins...)
		if err != nil {
			return nil, err
		}
		return artifact.Source(g), nil
	}
}

var sound = sdk.Predicate{Name: "Sound", Filter: func(r *sdk.Request) sdk.Verdict {
	if r.Node.Requested.MilliCPU+r.Pod.Requests.MilliCPU > r.Node.Allocatable.MilliCPU {
		return sdk.Unfit("Insufficient cpu")
	}
	return sdk.Fits()
}}

var roomy = sdk.Priority{Name: "Roomy", Normalize: sdk.NormalizePlugin,
	Score: func(r *sdk.Request) int64 { return r.Node.Allocatable.Memory - r.Node.Requested.Memory },
	NormalizeFunc: func(_ *sdk.Cluster, _ *sdk.Pod, _ any, _ []*sdk.Node, scores []int64) {
		var top int64 = 1
		for _, s := range scores {
			top = max(top, s)
		}
		for i, s := range scores {
			scores[i] = max(s, 0) * sdk.MaxScore / top
		}
	},
}

// byHour refuses in every second hour of now, which is the question's time.
func byHour(until func(r *sdk.Request, end time.Time), now ...func(*sdk.Request) time.Time) sdk.Predicate {
	return sdk.Predicate{Name: "ByHour", Expires: true, Filter: func(r *sdk.Request) sdk.Verdict {
		until(r, r.Now().Truncate(time.Hour).Add(time.Hour))
		at := r.Now()
		for _, now := range now {
			at = now(r)
		}
		if at.Hour()%2 == 1 {
			return sdk.Unfit("node(s) were closed")
		}
		return sdk.Fits()
	}}
}

var scoredByHour = sdk.Priority{Name: "ScoredByHour", Expires: true, Score: func(r *sdk.Request) int64 {
	r.Until(r.Now().Truncate(time.Hour).Add(time.Hour))
	return int64(r.Now().Hour() % 10)
}}

// opened makes the plugin anew for each instance.
func opened(plugin func() any) Open {
	return func(ctx context.Context) (artifact.Artifact, error) { return opener(plugin())(ctx) }
}

// Each plugin breaks one rule; the check that is for it says so, and a sound
// one passes all.
func TestCheck(t *testing.T) {
	calls := int64(0)
	var last *sdk.Node
	for _, test := range []struct {
		name  string
		open  Open
		fault string // the check that fails; empty: none
	}{
		{"sound", opener(sound, roomy), ""},
		{"ends with time", opener(byHour(func(r *sdk.Request, end time.Time) { r.Until(end) }), scoredByHour), ""},
		{"ends with time and does not say so", opener(byHour(func(*sdk.Request, time.Time) {})), "the clock"},
		{"ends before it says", opener(byHour(func(r *sdk.Request, end time.Time) { r.Until(end.Add(24 * time.Hour)) })), "the clock"},
		{"keeps what time it was first", opened(func() any {
			first := time.Time{}
			return byHour(func(r *sdk.Request, end time.Time) {
				if first.IsZero() {
					first = r.Now()
				}
				r.Until(end)
			}, func(*sdk.Request) time.Time { return first })
		}), "the clock"},
		{"counts its calls", opener(sdk.Predicate{Name: "P", Filter: func(*sdk.Request) sdk.Verdict {
			if calls++; calls%3 == 0 {
				return sdk.Unfit("node(s) came third")
			}
			return sdk.Fits()
		}}), "same answer twice, in any order, one by one"},
		{"looks at the question before", opener(sdk.Priority{Name: "P", Score: func(r *sdk.Request) int64 {
			defer func() { last = r.Node }()
			if last != nil && last.Index > r.Node.Index {
				return 1
			}
			return 2
		}}), "same answer twice, in any order, one by one"},
		{"keeps what it prepared first", func() Open {
			return func(ctx context.Context) (artifact.Artifact, error) {
				first := int64(-1)
				return opener(sdk.Priority{Name: "P", Score: func(r *sdk.Request) int64 {
					if first < 0 {
						first = r.Node.Allocatable.MilliCPU / 1000 % 5
					}
					return first
				}})(ctx)
			}
		}(), "deltas and a fresh replica agree"},
		{"scores eleven", opener(sdk.Priority{Name: "P", Score: func(*sdk.Request) int64 { return 11 }}), "scores in range"},
		{"scores below nothing", opener(sdk.Priority{Name: "P", Normalize: sdk.NormalizeMax, Score: func(*sdk.Request) int64 { return -1 }}), "scores in range"},
		{"takes anything for a configuration", opener(sdk.Predicate{Name: "P", Filter: sound.Filter, Configure: func([]byte) error { return nil }}), "configure"},
		{"needs a configuration", opener(sdk.Predicate{Name: "P", Filter: sound.Filter, Configure: func([]byte) error { return errors.New("give me one") }}), "configure"},
		{"sorts by the hour", opener(sdk.QueueSort{Name: "P", Key: func(*sdk.QueuedPod) sdk.SortKey {
			calls++
			return sdk.SortKey{Number: calls}
		}}), "points of the cycle"},
		{"refuses without a reason", opener(sdk.Reserve{Name: "P", Reserve: func(*sdk.Placement) sdk.Status { return sdk.Refuse() }}), "points of the cycle"},
		{"sound points", opener(sdk.Reserve{Name: "R", Reserve: func(*sdk.Placement) sdk.Status { return sdk.Status{} }},
			sdk.PreFilter{Name: "F", Narrow: func(*sdk.Cluster, *sdk.Pod) ([]*sdk.Node, sdk.Status) { return nil, sdk.Status{} }},
			sdk.Permit{Name: "P", Permit: func(r *sdk.PermitRequest) sdk.Status { return sdk.WaitFor(1) }}), ""},
		{"panics at images", opener(sdk.Predicate{Name: "P", Filter: func(r *sdk.Request) sdk.Verdict {
			_ = r.Node.Images[1]
			return sdk.Fits()
		}}), "same answer twice, in any order, one by one"},
	} {
		t.Run(test.name, func(t *testing.T) {
			results, err := Check(t.Context(), test.open, Options{Seeds: 10})
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, f := range Faults(results) {
				found = found || f.Check == test.fault
				if test.fault == "" {
					t.Errorf("%s: %s", f.Check, f.Fault)
				}
			}
			if test.fault != "" && !found {
				t.Errorf("want a fault in %q, got %+v", test.fault, results)
			}
		})
	}
}

func TestAgree(t *testing.T) {
	other := sound
	other.Filter = func(r *sdk.Request) sdk.Verdict {
		if r.Node.Unschedulable {
			return sdk.Unfit("Insufficient cpu")
		}
		return sound.Filter(r)
	}
	if err := Agree(t.Context(), []Runner{{"a", opener(sound, roomy)}, {"b", opener(sound, roomy)}}, Options{}); err != nil {
		t.Error(err)
	}
	err := Agree(t.Context(), []Runner{{"a", opener(sound)}, {"b", opener(other)}}, Options{})
	if err == nil || !strings.Contains(err.Error(), "a and b: Sound says") || !strings.Contains(err.Error(), "seed ") {
		t.Errorf("two that differ: %v", err)
	}
}

// The same seed is the same world: a fault can be shown again.
func TestWorldRepeats(t *testing.T) {
	a, b := NewWorld(7, 9, Vocabulary{}), NewWorld(7, 9, Vocabulary{})
	for step := range 50 {
		if x, y := a.Step(), b.Step(); !proto.Equal(x, y) {
			t.Fatalf("step %d differs: %v and %v", step, x, y)
		}
	}
	if !proto.Equal(a.Whole(), b.Whole()) {
		t.Error("the worlds differ")
	}
	if proto.Equal(a.Whole(), NewWorld(8, 9, Vocabulary{}).Whole()) {
		t.Error("another seed is the same world")
	}
}

func TestCases(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cpu.yaml")
	const text = `# a comment that stays
name: small and large
nodes:
  - {name: small, allocatable: {milliCpu: 500}}
  - name: large
pods:
  - node: large
    pod: {name: there, requests: {milliCpu: 1000}}
pod: {name: asked, requests: {milliCpu: 1000}}
want:
  Sound: {small: fits, large: [one, two]}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cases, err := ReadCases(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = cases[0].Run(t.Context(), opener(sound))
	if err == nil || !strings.Contains(err.Error(), `Sound for node small: got "Insufficient cpu", want fits`) || !strings.Contains(err.Error(), `node large: got fits, want "one; two"`) {
		t.Errorf("wrong wants: %v", err)
	}
	changed, err := Update(t.Context(), dir, opener(sound, roomy))
	if err != nil || len(changed) != 1 {
		t.Fatalf("update: %v, %v", changed, err)
	}
	if cases, err = ReadCases(dir); err != nil {
		t.Fatal(err)
	}
	if err := cases[0].Run(t.Context(), opener(sound, roomy)); err != nil {
		t.Errorf("after the update: %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(after), "# a comment that stays\n") || !strings.Contains(string(after), "Roomy:") {
		t.Errorf("file after the update (%v):\n%s", err, after)
	}
	if changed, err := Update(t.Context(), dir, opener(sound, roomy)); err != nil || len(changed) != 0 {
		t.Errorf("a second update changes %v, %v", changed, err)
	}
	for _, bad := range []string{"nodes: [{nme: x}]", "nodez: []", "nodes: [{name: a}]\nwant: {P: {b: fits}}", "pods: [{node: a}]", "nodes: [{name: a}]\nwant: {P: {a: 1.5}}"} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadCases(dir); err == nil {
			t.Errorf("%q is taken for a case", bad)
		}
	}
}
