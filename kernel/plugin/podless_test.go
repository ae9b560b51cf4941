package plugin

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func podAdd(node uint32, name string) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{
		Node: node, Pod: &contractv1.Pod{Namespace: "d", Name: name, Uid: "uid-" + name}, Class: 7,
	}}}
}

func podRemove(node uint32, name string) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_PodRemove{PodRemove: &contractv1.PodRemove{Node: node, Uid: "uid-" + name}}}
}

func painted(index uint32, color string) *contractv1.Operation {
	op := nodeSet(index, fmt.Sprint("n", index))
	op.GetNodeSet().Node.Labels = map[string]string{"color": color}
	return op
}

// A bundle whose plugins look at no pods is told of none, and of everything else in
// time: with a replica, with deltas, and after a restart (SCH-4).
func TestPodlessBundle(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			cfg := testConfig(t, transport)
			cfg.Bundles = []BundleConfig{{Name: "podless", Transport: transport}}
			cfg.Profiles = []Profile{{SchedulerName: "s", Predicates: []string{"Unoccupied"}, Points: map[string][]string{
				sdk.KindReserve: {"Seat"}, sdk.KindPostBind: {"Tell"},
			}}}
			source := &testSource{delta: replica(6, 1)}
			h := runHost(t, cfg, source)
			p := h.Source("s").policy.Load()
			u := p.units[0]
			generation := uint64(1)
			apply := func(operations ...*contractv1.Operation) {
				t.Helper()
				generation++
				full := proto.Clone(source.delta).(*contractv1.Delta)
				full.Generation = generation
				full.Operations = append(full.Operations, operations...)
				source.set(full)
				if err := p.Apply(t.Context(), &contractv1.Delta{Generation: generation, Operations: operations}); err != nil {
					t.Fatal(err)
				}
			}
			verdicts := func(want ...string) {
				t.Helper()
				out := make([]uint32, 6)
				if err := p.Filter(t.Context(), 0, 7, indexes(6), out); err != nil {
					t.Fatal(err)
				}
				for k, v := range out {
					got := ""
					if v != 0 {
						got = fmt.Sprint(p.Reasons(0, v))
					}
					if got != want[k] {
						t.Errorf("node %d: %q, want %q", k, got, want[k])
					}
				}
			}
			seat := func(want string) {
				t.Helper()
				c := cycleCall(cyclePod("p"), contractv1.Point_RESERVE)
				p.Cycle(t.Context(), c)
				if got := outcome(c.Results[0]); got != want {
					t.Errorf("reserve: %s, want %s", got, want)
				}
			}
			waiting := func() (parts int, sent uint64) {
				u.mu.Lock()
				defer u.mu.Unlock()
				return len(u.queue), u.sent
			}

			if err := p.Apply(t.Context(), source.delta); err != nil {
				t.Fatal(err)
			}
			waitSound(t, p, 0)
			if !u.podless {
				t.Fatal("it is told of pods")
			}
			verdicts("", "", "", "", "", "")

			// Pods alone cross with nothing, however many.
			_, before := waiting()
			for k := range 2000 {
				name := fmt.Sprint("x", k)
				apply(podAdd(uint32(k%6), name))
				if k%2 == 0 {
					apply(podRemove(uint32(k%6), name))
				}
			}
			if n, sent := waiting(); n != 1 || sent != before {
				t.Errorf("%d deltas wait after generation %d, want one after %d", n, sent, before)
			}
			verdicts("", "", "", "", "", "")
			if n, sent := waiting(); n != 0 || sent != generation {
				t.Errorf("%d deltas wait after a question, the guest is at %d of %d", n, sent, generation)
			}

			// What else there is comes in time and in order.
			apply(podAdd(1, "y"), painted(1, "red"))
			apply(podAdd(2, "z"))
			apply(podRemove(1, "y"))
			verdicts("", "[node(s) were red]", "", "", "", "")
			apply(podAdd(3, "w"))
			apply(painted(2, "blue"))
			apply(podAdd(3, "v"))
			seat("unschedulable asked about p on n2 with color blue")
			apply(podAdd(2, "u"))
			seat("unschedulable asked about p on n2 with color blue")

			if transport == manifest.TransportProcess {
				restarts := objectOf(h, "Unoccupied").Status.Restarts
				if err := syscall.Kill(int(objectOf(h, "Unoccupied").Status.PID), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				poll(t, "it is restarted", func() bool { return objectOf(h, "Unoccupied").Status.Restarts > restarts })
				apply(podAdd(4, "t"))
				apply(painted(5, "red"))
				waitSound(t, p, 0)
				verdicts("", "[node(s) were red]", "", "", "", "[node(s) were red]")
				seat("unschedulable asked about p on n2 with color blue")
			}
		})
	}
}

func TestPodless(t *testing.T) {
	on := func(kind, scope string) *contractv1.PluginDescription {
		return &contractv1.PluginDescription{Kind: kind, Scope: scope}
	}
	for name, c := range map[string]struct {
		described []*contractv1.PluginDescription
		want      bool
	}{
		"nothing":             {nil, false},
		"a predicate":         {[]*contractv1.PluginDescription{on(sdk.KindPredicate, "node-object")}, true},
		"one of scope node":   {[]*contractv1.PluginDescription{on(sdk.KindReserve, "node-object"), on(sdk.KindPredicate, "node")}, false},
		"one that says none":  {[]*contractv1.PluginDescription{on(sdk.KindReserve, ""), on(sdk.KindPreBind, "node-object")}, false},
		"reserve and binding": {[]*contractv1.PluginDescription{on(sdk.KindReserve, "node-object"), on(sdk.KindPreBind, "node-object")}, true},
		"with a controller":   {[]*contractv1.PluginDescription{on(sdk.KindReserve, "node-object"), on(sdk.KindController, "")}, false},
		"with admission":      {[]*contractv1.PluginDescription{on(sdk.KindReserve, "node-object"), on(sdk.KindAdmission, "node-object")}, false},
	} {
		described := map[string]*contractv1.PluginDescription{}
		for i, d := range c.described {
			described[fmt.Sprint(i)] = d
		}
		if got := podless(described); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Deltas that say nothing are joined where one follows the other, and no other is.
func TestEnqueueJoinsEmptyDeltas(t *testing.T) {
	for name, c := range map[string]struct {
		deltas []*contractv1.Delta
		want   []uint64 // after and generation of each
	}{
		"one behind the other": {[]*contractv1.Delta{{Generation: 5}, {Generation: 6}, {Generation: 7}}, []uint64{4, 7}},
		"with one between":     {[]*contractv1.Delta{{Generation: 5}, {Generation: 6, Operations: []*contractv1.Operation{nodeSet(0, "n")}}, {Generation: 7}, {Generation: 8}}, []uint64{4, 5, 5, 6, 6, 8}},
		"with a gap":           {[]*contractv1.Delta{{Generation: 5}, {Generation: 7}}, []uint64{4, 5, 6, 7}},
		"after a reset":        {[]*contractv1.Delta{{Generation: 5, Reset_: true}, {Generation: 6}, {Generation: 7}}, []uint64{4, 5, 5, 7}},
		"a reset":              {[]*contractv1.Delta{{Generation: 5}, {Generation: 6, Reset_: true}}, []uint64{4, 5, 5, 6}},
	} {
		u := &unit{}
		for _, d := range c.deltas {
			p, err := guest.NewPart(d)
			if err != nil {
				t.Fatal(err)
			}
			u.enqueue(p)
		}
		var got []uint64
		for _, p := range u.queue {
			got = append(got, p.After, p.Delta.GetGeneration())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
