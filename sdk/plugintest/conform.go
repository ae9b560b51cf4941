package plugintest

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Answerer answers as the scheduler's policy does: a WASM or a process build
// of a bundle, served by the plugin host.
type Answerer = contractv1.Policy

// Case is one replica with one class, Class, to ask about.
type Case struct {
	Name  string
	Delta *contractv1.Delta // reset is set
	Nodes []uint32
}

// RunCases asks each predicate and priority of build about each case and
// requires exactly the verdicts, reasons and scores that the same plugins give
// in the test's own process (guest, usually sdk.NewGuest()).
func RunCases(t *testing.T, guest *sdk.Guest, build Answerer, cases []Case) {
	t.Helper()
	for k, c := range cases {
		delta := proto.Clone(c.Delta).(*contractv1.Delta)
		delta.Generation, delta.Reset_ = uint64(k+1), true
		data, err := proto.Marshal(delta)
		if err != nil {
			t.Fatal(err)
		}
		if err := guest.Apply(data); err != nil {
			t.Fatalf("case %s: %v", c.Name, err)
		}
		ctx := t.Context()
		if err := build.Apply(ctx, delta); err != nil {
			t.Fatalf("case %s: %v", c.Name, err)
		}
		for i, p := range build.Predicates() {
			filterCase(ctx, t, guest, build, c, i, p.Name)
		}
		for i, p := range build.Priorities() {
			scoreCase(ctx, t, guest, build, c, i, p)
		}
	}
}

func filterCase(ctx context.Context, t *testing.T, guest *sdk.Guest, build Answerer, c Case, i int, name string) {
	t.Helper()
	want, got := make([]uint32, len(c.Nodes)), make([]uint32, len(c.Nodes))
	own := guest.Index(name)
	if err := guest.Filter(own, Class, c.Nodes, want); err != nil {
		t.Fatalf("case %s: %s in process: %v", c.Name, name, err)
	}
	if err := build.Filter(ctx, i, Class, c.Nodes, got); err != nil {
		t.Fatalf("case %s: %s: %v", c.Name, name, err)
	}
	for k, n := range c.Nodes {
		var w, g []string
		if want[k] != 0 {
			w = guest.Reasons(own, want[k])
		}
		if got[k] != 0 {
			g = build.Reasons(i, got[k])
		}
		if !slices.Equal(w, g) {
			t.Errorf("case %s: %s on node %d: reasons %q, in process %q", c.Name, name, n, g, w)
		}
	}
}

func scoreCase(ctx context.Context, t *testing.T, guest *sdk.Guest, build Answerer, c Case, i int, p contractv1.PriorityInfo) {
	t.Helper()
	want, got := make([]int64, len(c.Nodes)), make([]int64, len(c.Nodes))
	own := guest.Index(p.Name)
	if err := guest.Score(own, Class, c.Nodes, want); err != nil {
		t.Fatalf("case %s: %s in process: %v", c.Name, p.Name, err)
	}
	if err := build.Score(ctx, i, Class, c.Nodes, got); err != nil {
		t.Fatalf("case %s: %s: %v", c.Name, p.Name, err)
	}
	if !slices.Equal(want, got) {
		t.Errorf("case %s: %s scores %d, in process %d", c.Name, p.Name, got, want)
	}
	if p.Normalize != string(sdk.NormalizePlugin) {
		return
	}
	if err := guest.Normalize(own, Class, c.Nodes, want); err != nil {
		t.Fatalf("case %s: %s in process: %v", c.Name, p.Name, err)
	}
	if err := build.Normalize(ctx, i, Class, c.Nodes, got); err != nil {
		t.Fatalf("case %s: %s: %v", c.Name, p.Name, err)
	}
	if !slices.Equal(want, got) {
		t.Errorf("case %s: %s normalizes to %d, in process %d", c.Name, p.Name, got, want)
	}
}
