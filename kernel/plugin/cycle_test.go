package plugin

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// cyclePolicy runs the bundle that is asked at every point.
func cyclePolicy(t testing.TB, transport string, change ...func(*Config)) *Policy {
	t.Helper()
	cfg := testConfig(t, transport)
	cfg.Bundles = []BundleConfig{{Name: "cycle", Transport: transport}}
	cfg.Profiles = []Profile{{SchedulerName: "s", Predicates: []string{"Journal"}, Points: map[string][]string{
		"pre-enqueue": {"Enter"}, "queue-sort": {"Order"}, "pre-filter": {"Narrow"}, "post-filter": {"Nominate"}, "pre-score": {"Look"},
		"reserve": {"First", "Second"}, "permit": {"Hold"}, "pre-bind": {"Before"}, "bind": {"Write"}, "post-bind": {"After"},
	}}}
	for _, f := range change {
		f(&cfg)
	}
	source := &testSource{delta: replica(6, 1)}
	h := runHost(t, cfg, source)
	p := h.Source("s").policy.Load()
	if err := p.Apply(t.Context(), source.delta); err != nil {
		t.Fatal(err)
	}
	return p
}

func cyclePod(name string, labels ...string) *contractv1.QueuedPod {
	p := &contractv1.Pod{Namespace: "d", Name: name, Uid: "uid-" + name, Priority: 7, Labels: map[string]string{}}
	for i := 0; i+1 < len(labels); i += 2 {
		p.Labels[labels[i]] = labels[i+1]
	}
	return &contractv1.QueuedPod{Pod: p, Attempts: 1}
}

func cycleCall(pod *contractv1.QueuedPod, points ...contractv1.Point) *contractv1.CycleCall {
	c := &contractv1.CycleCall{Pods: []*contractv1.QueuedPod{pod}, Class: 7, Node: 2, NodeName: "n2", HasNode: true}
	for _, at := range points {
		c.Steps = append(c.Steps, contractv1.CycleStep{Point: at})
	}
	return c
}

// outcome is an answer in one line.
func outcome(r *contractv1.StepResult) string {
	s := strings.ToLower(r.GetCode().String())
	if len(r.Reasons) > 0 {
		s += " " + strings.Join(r.Reasons, ";")
	}
	if r.Narrowed {
		s += fmt.Sprint(" nodes ", r.Nodes)
	}
	for _, k := range r.Keys {
		s += fmt.Sprint(" key ", k.Number, k.Text)
	}
	for _, a := range r.Pods {
		s += " pod " + strings.ToLower(a.Code.String()) + strings.Join(a.Reasons, ";")
	}
	if r.WaitNanoseconds > 0 {
		s += " for " + time.Duration(r.WaitNanoseconds).String()
	}
	for _, d := range r.Decisions {
		s += fmt.Sprint(" decision ", d.Uid, " ", d.Allow, d.Reason)
	}
	if n := r.Nomination; n != nil {
		s += fmt.Sprint(" nominates ", n.Node, " ", n.Victims)
	}
	if r.Bound {
		s += " bound"
	}
	for k, v := range r.Annotations {
		s += " " + k + "=" + v
	}
	return s
}

// Every kind answers alike over WASM and process (and as TestStepsStop and its
// like in package sdk say).
func TestPointsAnswerAlike(t *testing.T) {
	policies := map[string]*Policy{}
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		policies[transport] = cyclePolicy(t, transport)
	}
	for _, tc := range []struct {
		name string
		ask  func() *contractv1.CycleCall
		want []string
	}{
		{"enter the queue", func() *contractv1.CycleCall {
			c := cycleCall(cyclePod("b"), contractv1.Point_PRE_ENQUEUE, contractv1.Point_QUEUE_SORT)
			c.Pods = append(c.Pods, cyclePod("a", "at", "pre-enqueue", "do", "refuse"))
			return c
		}, []string{"success pod success pod unschedulablerefused by pre-enqueue", "success key -7b key -7a"}},
		{"pre-filter", func() *contractv1.CycleCall { return cycleCall(nil, contractv1.Point_PRE_FILTER) }, []string{"success nodes [0 2 4]"}},
		{"post-filter", func() *contractv1.CycleCall {
			c := cycleCall(cyclePod("p"), contractv1.Point_POST_FILTER)
			c.Nodes, c.Refused = []uint32{0, 1, 5}, []uint32{1, 1, 0}
			c.Refusals = []*contractv1.Refusal{{Plugin: "FitsCPU", Reasons: []string{"Insufficient cpu"}}, {Plugin: "Other", Reasons: []string{"x"}}}
			return c
		}, []string{"success nominates 5 [u5]"}},
		{"post-filter with nothing to offer", func() *contractv1.CycleCall {
			c := cycleCall(cyclePod("p"), contractv1.Point_POST_FILTER)
			c.Nodes, c.Refused, c.Refusals = []uint32{0}, []uint32{0}, []*contractv1.Refusal{{Plugin: "Other", Reasons: []string{"x"}}}
			return c
		}, []string{"unschedulable refused by Other nominates 0 [u0]"}},
		{"pre-score", func() *contractv1.CycleCall {
			c := cycleCall(nil, contractv1.Point_PRE_SCORE)
			c.Nodes = []uint32{0, 2}
			return c
		}, []string{"success"}},
		{"reserve and permit in one crossing", func() *contractv1.CycleCall {
			c := cycleCall(cyclePod("p", "wait", "yes"), contractv1.Point_RESERVE, contractv1.Point_RESERVE, contractv1.Point_PERMIT)
			c.Steps[1].Plugin = 1
			return c
		}, []string{"success", "success", "wait for 1m0s"}},
		{"a refusal stops", func() *contractv1.CycleCall {
			c := cycleCall(cyclePod("p", "at", "reserve", "do", "refuse"), contractv1.Point_RESERVE, contractv1.Point_RESERVE, contractv1.Point_PERMIT)
			c.Steps[1].Plugin = 1
			return c
		}, []string{"success", "unschedulable refused by reserve"}},
		{"permit lets others go", func() *contractv1.CycleCall {
			c := cycleCall(cyclePod("p"), contractv1.Point_PERMIT)
			c.Steps[0].Waiting = []*contractv1.WaitingPod{{Uid: "u4", Node: 4}, {Uid: "u9", Node: 4}}
			return c
		}, []string{"success decision u4 true"}},
		{"review", func() *contractv1.CycleCall {
			c := cycleCall(nil, contractv1.Point_PERMIT_REVIEW)
			c.Pods = nil
			c.Steps[0].Waiting = []*contractv1.WaitingPod{{Uid: "u4", Node: 4}, {Uid: "u3", Node: 3, WaitingNanoseconds: int64(time.Hour)}}
			return c
		}, []string{"success decision u3 falsereviewed on n3"}},
		{"binding", func() *contractv1.CycleCall {
			return cycleCall(cyclePod("p"), contractv1.Point_PRE_BIND, contractv1.Point_BIND, contractv1.Point_POST_BIND)
		}, []string{"success", "success example.com/bound-by=n2", "success"}},
		{"bind skips", func() *contractv1.CycleCall { return cycleCall(cyclePod("p", "bind", "skip"), contractv1.Point_BIND) },
			[]string{"skip example.com/bound-by=n2"}},
		{"unreserve goes on", func() *contractv1.CycleCall {
			c := cycleCall(cyclePod("p", "at", "unreserve", "do", "fail"), contractv1.Point_UNRESERVE, contractv1.Point_UNRESERVE)
			c.Steps[0].Plugin = 1
			return c
		}, []string{"success", "success"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for transport, p := range policies {
				c := tc.ask()
				if c.Pods != nil && c.Pods[0] == nil {
					c.Pods = nil
				}
				p.Cycle(t.Context(), c)
				var got []string
				for _, r := range c.Results {
					got = append(got, outcome(r))
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("%s:\n%q, want\n%q", transport, got, tc.want)
				}
			}
		})
	}
}

// What the plugin noted of its own calls, by asking its predicate.
func journalOf(t *testing.T, p *Policy) string {
	t.Helper()
	out := make([]uint32, 1)
	if err := p.Filter(t.Context(), 0, 7, []uint32{0}, out); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(p.Reasons(0, out[0])[0], "journal: ")
}

// A process can have written the binding by itself; a module cannot.
func TestBoundByThePlugin(t *testing.T) {
	for transport, want := range map[string]string{
		manifest.TransportProcess: "success bound example.com/bound-by=n2",
		manifest.TransportWASM:    "error plugin Write: plugin bundle cycle: answer out of range: a module cannot have written a binding",
	} {
		p := cyclePolicy(t, transport)
		c := cycleCall(cyclePod("p", "bind", "own"), contractv1.Point_BIND)
		if p.Cycle(t.Context(), c); outcome(c.Results[0]) != want {
			t.Errorf("%s: %s", transport, outcome(c.Results[0]))
		}
	}
}

// A process gets the deltas that wait together with the question.
func TestCycleCarriesDeltas(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		p := cyclePolicy(t, transport)
		c := cycleCall(cyclePod("p"), contractv1.Point_PERMIT)
		if err := p.Apply(t.Context(), &contractv1.Delta{Generation: 2, Operations: []*contractv1.Operation{{
			Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: 1, Pod: &contractv1.Pod{Uid: "fresh"}}},
		}}}); err != nil {
			t.Fatal(err)
		}
		c.Steps[0].Waiting = []*contractv1.WaitingPod{{Uid: "fresh", Node: 1}}
		if p.Cycle(t.Context(), c); outcome(c.Results[0]) != "success decision fresh true" {
			t.Errorf("%s: %s", transport, outcome(c.Results[0]))
		}
		// Filter is asked about the same generation without another delta.
		if got := journalOf(t, p); got != "" {
			t.Errorf("%s: journal %q", transport, got)
		}
	}
}

// A hostile plugin of each kind: panics, never returns, answers out of range. The
// call ends in time with an error, and the bundle answers again.
func TestHostileAtEachPoint(t *testing.T) {
	type hostile struct {
		point contractv1.Point
		at    string
		do    string
		words string // of the error
	}
	var all []hostile
	for point, at := range map[contractv1.Point]string{
		contractv1.Point_PRE_ENQUEUE: "pre-enqueue", contractv1.Point_QUEUE_SORT: "queue-sort", contractv1.Point_POST_FILTER: "post-filter",
		contractv1.Point_PERMIT: "permit", contractv1.Point_PRE_BIND: "pre-bind",
		contractv1.Point_BIND: "bind",
	} {
		all = append(all, hostile{point, at, "panic", "on purpose at " + at}, hostile{point, at, "hang", "no answer in time"})
	}
	all = append(all,
		hostile{contractv1.Point_UNRESERVE, "unreserve", "hang", "no answer in time"},
		hostile{contractv1.Point_UNRESERVE, "unreserve", "panic", "on purpose"},
		hostile{contractv1.Point_RESERVE, "reserve", "wild code", "out of range: code 77"},
		hostile{contractv1.Point_RESERVE, "reserve", "wild text", "out of range"},
		hostile{contractv1.Point_RESERVE, "reserve", "wild wait", "out of range: code 4"},
		hostile{contractv1.Point_QUEUE_SORT, "queue-sort", "wild answer", "a key of 4096 bytes"},
		hostile{contractv1.Point_POST_FILTER, "post-filter", "wild answer", "node 1073741824"},
		hostile{contractv1.Point_PERMIT, "permit", "wild answer", "5000 decisions"},
		hostile{contractv1.Point_BIND, "bind", "wild answer", "bytes of annotations"},
		hostile{contractv1.Point_POST_BIND, "post-bind", "hang", "no answer in time"},
		hostile{contractv1.Point_POST_BIND, "post-bind", "panic", "on purpose"},
	)
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			p, broke, bound := cyclePolicy(t, transport, brieflyAsked), 0, false
			for _, h := range all {
				if transport == manifest.TransportProcess && h.do == "hang" && h.at != "permit" && h.at != "pre-bind" {
					continue // they are one way through the host
				}
				if h.do != "panic" {
					broke++
				}
				switch {
				case transport == manifest.TransportProcess && h.at == "pre-bind" && h.do == "hang":
					// A process may take a hundred times a call to bind, if it does not say less.
					p = cyclePolicy(t, transport)
					p.filters[0].unit.bundle.Manifest.Timeouts.Binding = 2 * time.Second
					bound = true
				case broke%3 == 0, bound:
					p = cyclePolicy(t, transport, brieflyAsked) // the wait before a start doubles, and circuits open
					bound = false
				}
				c := cycleCall(cyclePod("p", "at", h.at, "do", h.do), h.point)
				if h.point == contractv1.Point_POST_FILTER {
					c.Nodes, c.Refused, c.Refusals = []uint32{0}, []uint32{0}, []*contractv1.Refusal{{Plugin: "FitsCPU", Reasons: []string{"Insufficient cpu"}}}
				}
				if h.at == "reserve" || h.at == "unreserve" {
					c.Steps[0].Plugin = 1
				}
				began := time.Now()
				p.Cycle(t.Context(), c)
				if len(c.Results) != 1 || c.Results[0].Code != contractv1.Code_ERROR || !strings.Contains(outcome(c.Results[0]), h.words) {
					t.Errorf("%s at %s: %v, want an error that says %q", h.do, h.at, c.Results, h.words)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("%s at %s took %s", h.do, h.at, took)
				}
				waitAnswers(t, p)
			}
		})
	}
}

// waitAnswers waits until the bundle is back and asks it something sound.
func waitAnswers(t *testing.T, p *Policy) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		c := cycleCall(cyclePod("sound"), contractv1.Point_RESERVE)
		p.Cycle(t.Context(), c)
		if len(c.Results) == 1 && c.Results[0].Code == contractv1.Code_SUCCESS {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the bundle does not come back: %v", c.Results)
		}
	}
}

// onFailure: ignore leaves a plugin out that fails, and asks those behind it.
func TestFailureIgnoredAtPoints(t *testing.T) {
	p := cyclePolicy(t, manifest.TransportWASM, func(c *Config) { c.Bundles[0].OnFailure = manifest.OnFailureIgnore })
	c := cycleCall(cyclePod("p", "at", "reserve", "do", "panic", "wait", "yes"), contractv1.Point_RESERVE, contractv1.Point_RESERVE, contractv1.Point_PERMIT)
	c.Steps[1].Plugin = 1
	p.Cycle(t.Context(), c)
	if len(c.Results) != 3 || c.Results[1].Code != contractv1.Code_SKIP || c.Results[2].Code != contractv1.Code_WAIT {
		t.Errorf("results %v", c.Results)
	}
}

// A bundle that is too new or too old is refused in one line with both versions.
func TestContractVersions(t *testing.T) {
	for _, tc := range []struct {
		v      guest.Versions
		speaks uint32
		want   string
	}{
		{guest.Versions{Oldest: 1, Newest: 2}, 1, ""},
		{guest.Versions{Oldest: 1, Newest: 2}, 2, ""},
		{guest.Versions{Oldest: 1, Newest: 2}, 3, "too new: it speaks contract version 3, this kernel 1 to 2;"},
		{guest.Versions{Oldest: 2, Newest: 3}, 1, "too old: it speaks contract version 1, this kernel 2 to 3;"},
		{guest.Versions{Oldest: 2, Newest: 2}, 0, "too old: it speaks contract version 0, this kernel 2;"},
	} {
		err := tc.v.Check("b", tc.speaks)
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%v of a plugin of %d: %v", tc.v, tc.speaks, err)
		}
	}
}

func BenchmarkCycle(b *testing.B) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		p := cyclePolicy(b, transport)
		for name, points := range map[string][]contractv1.Point{
			"reserve and permit": {contractv1.Point_RESERVE, contractv1.Point_PERMIT},
			"bind":               {contractv1.Point_PRE_BIND, contractv1.Point_BIND, contractv1.Point_POST_BIND},
		} {
			b.Run(transport+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c := cycleCall(cyclePod("p"), points...)
					if p.Cycle(b.Context(), c); len(c.Results) != len(points) {
						b.Fatal(c.Results)
					}
				}
			})
		}
	}
}

// A binding that is called off ends at once, in the process too, which stays in
// service.
func TestBindingCalledOff(t *testing.T) {
	p := cyclePolicy(t, manifest.TransportProcess)
	awaitJournal := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); journalOf(t, p) != want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the plugin does not say %q", want)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, done := cycleCall(cyclePod("p", "bind", "patiently"), contractv1.Point_PRE_BIND), make(chan struct{})
	go func() {
		defer close(done)
		p.Cycle(ctx, c)
	}()
	awaitJournal("waits")
	cancel()
	<-done
	if len(c.Results) != 1 || outcome(c.Results[0]) != "error context canceled" {
		t.Errorf("answered %v", c.Results)
	}
	awaitJournal("called off")
	next := cycleCall(cyclePod("p"), contractv1.Point_PRE_BIND)
	if p.Cycle(t.Context(), next); len(next.Results) != 1 || outcome(next.Results[0]) != "success" {
		t.Errorf("then answered %v", next.Results)
	}
}

// What waits for others at a binding may say for how long, beyond a hundred calls:
// VolumeBinding's bindTimeoutSeconds is 600 by default.
func TestBindingLimit(t *testing.T) {
	u := &unit{call: time.Second, bundle: &manifest.Bundle{Manifest: &manifest.Manifest{}}}
	if got := u.bindingLimit(); got != 100*time.Second {
		t.Errorf("without a word %v", got)
	}
	m, err := manifest.Read(filepath.Join("..", "..", "plugins", "volumebinding", "manifest.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	u.bundle.Manifest = m
	if got := u.bindingLimit(); got < 600*time.Second {
		t.Errorf("volumebinding: %v, which is less than its bindTimeoutSeconds", got)
	}
}
