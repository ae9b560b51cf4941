package sdk

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk/contract"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// run asks a guest of the plugins one request about a small replica: nodes a, b
// and c, pod w1 on b, class 7.
func run(t *testing.T, req *contractv1.CycleRequest, plugins ...any) (*contractv1.CycleResponse, error) {
	t.Helper()
	g, err := GuestOf(plugins...)
	if err != nil {
		t.Fatal(err)
	}
	var ops []*contractv1.Operation
	for i, name := range []string{"a", "b", "c"} {
		ops = append(ops, &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{
			Index: uint32(i), Node: &contractv1.Node{Name: name, Labels: map[string]string{"zone": name}}}}})
	}
	ops = append(ops,
		&contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: 1, Pod: &contractv1.Pod{Uid: "w1", Name: "w1", Priority: 3}}}},
		&contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 7, Pod: &contractv1.Pod{Namespace: "n"}}}})
	delta, err := proto.Marshal(&contractv1.Delta{Generation: 5, Reset_: true, Operations: ops})
	if err != nil {
		t.Fatal(err)
	}
	req.Deltas = [][]byte{delta}
	data, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := g.Cycle(t.Context(), data)
	if err != nil {
		return nil, err
	}
	resp := &contractv1.CycleResponse{}
	if err := proto.Unmarshal(answer, resp); err != nil {
		t.Fatalf("answer is no CycleResponse: %v", err)
	}
	return resp, nil
}

func queued(name string, priority int32) *contractv1.QueuedPod {
	return &contractv1.QueuedPod{
		Pod:            &contractv1.Pod{Namespace: "n", Name: name, Uid: "uid-" + name, Priority: priority},
		QueuedUnixNano: 12_000_000_034, CreatedUnix: 11, Attempts: 2,
	}
}

func stepOf(name string, at contractv1.Point) []*contractv1.Step {
	return []*contractv1.Step{{Plugin: name, Point: at}}
}

func TestPreEnqueueAndQueueSortAnswerABatch(t *testing.T) {
	admit := PreEnqueue{Name: "Admit", Admit: func(_ *Cluster, p *QueuedPod) Status {
		if p.Name == "late" {
			return Refuse("too late")
		}
		return Status{}
	}}
	key := QueueSort{Name: "Key", Key: func(p *QueuedPod) SortKey {
		return SortKey{Number: -int64(p.Priority), Text: p.Queued.UTC().Format(time.RFC3339Nano) + p.Name}
	}}
	resp, err := run(t, &contractv1.CycleRequest{
		Steps: []*contractv1.Step{{Plugin: "Admit", Point: contractv1.Point_PRE_ENQUEUE}, {Plugin: "Key", Point: contractv1.Point_QUEUE_SORT}},
		Pods:  []*contractv1.QueuedPod{queued("early", 4), queued("late", -4)},
	}, admit, key)
	if err != nil {
		t.Fatal(err)
	}
	admissions, keys := resp.Results[0].GetPods(), resp.Results[1].GetKeys()
	if len(admissions) != 2 || admissions[0].Code != 0 || admissions[1].Code != contractv1.Code_UNSCHEDULABLE || admissions[1].Reasons[0] != "too late" {
		t.Errorf("admissions %v", admissions)
	}
	if len(keys) != 2 || keys[0].Number != -4 || keys[1].Number != 4 || keys[0].Text != "1970-01-01T00:00:12.000000034Zearly" {
		t.Errorf("keys %v", keys)
	}
}

func TestPreFilterNarrowsAndRefuses(t *testing.T) {
	for _, tc := range []struct {
		name     string
		narrow   func(c *Cluster, p *Pod) ([]*Node, Status)
		narrowed bool
		nodes    []uint32
		code     contractv1.Code
	}{
		{"all", func(*Cluster, *Pod) ([]*Node, Status) { return nil, Status{} }, false, nil, 0},
		{"some", func(c *Cluster, p *Pod) ([]*Node, Status) { return []*Node{c.Node(2), c.Node(0)}, Status{} }, true, []uint32{2, 0}, 0},
		{"none", func(*Cluster, *Pod) ([]*Node, Status) { return []*Node{}, Status{} }, true, nil, 0},
		{"refuses", func(_ *Cluster, p *Pod) ([]*Node, Status) { return nil, RefuseForGood("no " + p.Namespace) }, false, nil, contractv1.Code_UNSCHEDULABLE_AND_UNRESOLVABLE},
		{"a node that is not there", func(c *Cluster, _ *Pod) ([]*Node, Status) { return []*Node{c.Node(9)}, Status{} }, false, nil, contractv1.Code_ERROR},
	} {
		resp, err := run(t, &contractv1.CycleRequest{Steps: stepOf("P", contractv1.Point_PRE_FILTER), Class: 7}, PreFilter{Name: "P", Narrow: tc.narrow})
		if err != nil {
			t.Fatal(tc.name, err)
		}
		if r := resp.Results[0]; r.Narrowed != tc.narrowed || !slices.Equal(r.Nodes, tc.nodes) || r.Code != tc.code {
			t.Errorf("%s: %v", tc.name, r)
		}
	}
	if _, err := run(t, &contractv1.CycleRequest{Steps: stepOf("P", contractv1.Point_PRE_FILTER), Class: 8},
		PreFilter{Name: "P", Narrow: func(*Cluster, *Pod) ([]*Node, Status) { return nil, Status{} }}); !errors.Is(err, ErrClass) {
		t.Errorf("a class that is not there: %v", err)
	}
}

func TestPostFilterNominates(t *testing.T) {
	plugin := PostFilter{Name: "P", Nominate: func(f *Failure) (Nomination, Status) {
		for _, r := range f.Refused {
			if r.Plugin == "Fits" && r.Reasons[0] == "full" {
				var n Nomination
				n.Node = r.Node
				for _, p := range r.Node.Pods {
					if p.Priority < f.Pod.Priority {
						n.Victims = append(n.Victims, p)
					}
				}
				return n, Status{}
			}
		}
		return Nomination{}, Refuse("nobody to evict")
	}}
	req := &contractv1.CycleRequest{
		Steps: stepOf("P", contractv1.Point_POST_FILTER), Class: 7, Pods: []*contractv1.QueuedPod{queued("p", 9)},
		Nodes: []uint32{0, 1, 2}, Refused: []uint32{0, 1, 0},
		Refusals: []*contractv1.Refusal{{Plugin: "Other", Reasons: []string{"tainted"}}, {Plugin: "Fits", Reasons: []string{"full"}}},
	}
	resp, err := run(t, req, plugin)
	if err != nil {
		t.Fatal(err)
	}
	if n := resp.Results[0].GetNomination(); n.GetNode() != 1 || !slices.Equal(n.GetVictims(), []string{"w1"}) {
		t.Errorf("nomination %v", n)
	}
	req.Refused = []uint32{0, 0, 9}
	if resp, err = run(t, req, plugin); err != nil || resp.Results[0].Code != contractv1.Code_UNSCHEDULABLE || resp.Results[0].Nomination != nil {
		t.Errorf("refused: %v, %v", resp, err)
	}
}

// Steps stop behind the first refusal; unreserve never stops; a panic is an Error
// of its step.
func TestStepsStop(t *testing.T) {
	var seen []string
	reserve := func(name string, s Status) Reserve {
		return Reserve{
			Name:      name,
			Reserve:   func(p *Placement) Status { seen = append(seen, "+"+name+p.NodeName); return s },
			Unreserve: func(p *Placement) { seen = append(seen, "-"+name); panic("on purpose") },
		}
	}
	permit := Permit{Name: "W", Permit: func(r *PermitRequest) Status {
		for _, w := range r.Waiting {
			r.Allow(w.Pod.UID)
			r.Reject(w.Pod.UID, w.Since.String())
		}
		return WaitFor(time.Minute, "its group is not complete")
	}}
	plugins := []any{reserve("A", Status{}), reserve("B", Skipped()), reserve("C", Refuse("no")), reserve("D", Status{}), permit}
	ask := func(point contractv1.Point, names ...string) *contractv1.CycleResponse {
		req := &contractv1.CycleRequest{Pods: []*contractv1.QueuedPod{queued("p", 0)}, Node: 1, HasNode: true, NodeName: "b"}
		for _, n := range names {
			s := &contractv1.Step{Plugin: n, Point: point}
			if n == "W" {
				s.Point, s.Waiting = contractv1.Point_PERMIT, []*contractv1.WaitingPod{
					{Uid: "w1", Node: 1, WaitingNanoseconds: 1e9}, {Uid: "gone", Node: 1}, {Uid: "w1", Node: 77}}
			}
			req.Steps = append(req.Steps, s)
		}
		resp, err := run(t, req, plugins...)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	resp := ask(contractv1.Point_RESERVE, "A", "W", "B", "C", "D")
	if got := strings.Join(seen, " "); got != "+Ab +Bb +Cb" || len(resp.Results) != 4 {
		t.Errorf("asked %s; %v", got, resp)
	}
	w := resp.Results[1]
	if w.Code != contractv1.Code_WAIT || w.WaitNanoseconds != int64(time.Minute) || len(w.Decisions) != 2 ||
		!w.Decisions[0].Allow || w.Decisions[1].Allow || w.Decisions[1].Reason != "1s" || len(w.Reasons) != 1 || w.Reasons[0] != "its group is not complete" {
		t.Errorf("permit %v", w)
	}
	seen = nil
	resp = ask(contractv1.Point_UNRESERVE, "D", "C", "A")
	if got := strings.Join(seen, " "); got != "-D -C -A" || len(resp.Results) != 3 || !strings.Contains(resp.Results[2].Reasons[0], "on purpose") {
		t.Errorf("unreserve asked %s; %v", got, resp)
	}
}

func TestBindingPoints(t *testing.T) {
	var socket string
	resp, err := run(t, &contractv1.CycleRequest{
		Steps: []*contractv1.Step{
			{Plugin: "Pre", Point: contractv1.Point_PRE_BIND, Socket: "/run/x"},
			{Plugin: "One", Point: contractv1.Point_BIND}, {Plugin: "Own", Point: contractv1.Point_BIND}, {Plugin: "Post", Point: contractv1.Point_POST_BIND},
		},
		Pods: []*contractv1.QueuedPod{queued("p", 0)}, Node: 1, HasNode: true, NodeName: "b",
	},
		PreBind{Name: "Pre", PreBind: func(b *Binding) Status {
			socket = b.Socket
			if b.Node.Labels["zone"] != "b" || b.Node.Pods != nil || b.Context == nil {
				return Refuse("wrong node")
			}
			return Status{}
		}},
		Bind{Name: "One", Bind: func(b *Binding) Status {
			b.Annotations = map[string]string{"k": "v"}
			return Status{}
		}},
		Bind{Name: "Own", Bind: func(*Binding) Status { return Bound() }},
		PostBind{Name: "Post", PostBind: func(*Binding) {}})
	if err != nil {
		t.Fatal(err)
	}
	r := resp.Results
	if len(r) != 4 || r[0].Code != 0 || socket != "/run/x" || r[1].Bound || r[1].Annotations["k"] != "v" || !r[2].Bound {
		t.Errorf("results %v", r)
	}
}

func TestCycleRefusesWhatItCannotAnswer(t *testing.T) {
	reserve := Reserve{Name: "R", Reserve: func(*Placement) Status { return Status{} }}
	for what, req := range map[string]*contractv1.CycleRequest{
		"a plugin that is not there": {Steps: stepOf("X", contractv1.Point_RESERVE), Pods: []*contractv1.QueuedPod{queued("p", 0)}},
		"another point":              {Steps: stepOf("R", contractv1.Point_BIND), Pods: []*contractv1.QueuedPod{queued("p", 0)}},
		"a point of the future":      {Steps: stepOf("R", 300), Pods: []*contractv1.QueuedPod{queued("p", 0)}},
		"no pod":                     {Steps: stepOf("R", contractv1.Point_RESERVE)},
		"a node that is not there":   {Steps: stepOf("R", contractv1.Point_RESERVE), Pods: []*contractv1.QueuedPod{queued("p", 0)}, Nodes: []uint32{44}},
	} {
		if resp, err := run(t, req, reserve); err == nil {
			t.Errorf("%s: answered %v", what, resp)
		}
	}
	if _, err := newServed(Permit{Name: "Empty"}); err == nil {
		t.Error("a permit without a function was taken")
	}
	if s, err := newServed(reserve); err != nil || s.scope != "" {
		t.Errorf("scope of a reserve plugin: %q, %v", s.scope, err)
	}
}

func TestContractIsTheOldestThatWillDo(t *testing.T) {
	old, err := GuestOf(Predicate{Name: "P", Filter: func(*Request) Verdict { return Fits() }})
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := GuestOf(Reserve{Name: "R", Reserve: func(*Placement) Status { return Status{} }})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		g                    *Guest
		oldest, newest, want uint32
	}{{old, 0, 0, 1}, {old, 1, 2, 1}, {old, 2, 3, 2}, {old, contract.Max + 1, contract.Max + 2, 1}, {fresh, 0, 0, 2}, {fresh, 1, 1, 2}, {fresh, 1, 2, 2}} {
		if got := tc.g.Contract(tc.oldest, tc.newest); got != tc.want {
			t.Errorf("kernel of %d to %d: %d, want %d", tc.oldest, tc.newest, got, tc.want)
		}
	}
}

// FuzzCycle: no request, however wrong, may bring a guest down.
func FuzzCycle(f *testing.F) {
	seed, _ := proto.Marshal(&contractv1.CycleRequest{
		Steps: stepOf("R", contractv1.Point_RESERVE), Pods: []*contractv1.QueuedPod{queued("p", 0)}, Nodes: []uint32{1, 300}, Refused: []uint32{0},
		Refusals: []*contractv1.Refusal{{Plugin: "x", Reasons: []string{"y"}}},
	})
	f.Add(seed)
	f.Add([]byte{0x4a, 0x02, 0x80, 0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := GuestOf(
			Reserve{Name: "R", Reserve: func(p *Placement) Status { return Refuse(p.Pod.Name) }},
			PostFilter{Name: "P", Nominate: func(f *Failure) (Nomination, Status) { return Nomination{}, Refuse() }})
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := g.Cycle(t.Context(), data); err == nil {
			if err := proto.Unmarshal(answer, &contractv1.CycleResponse{}); err != nil {
				t.Errorf("answer is no CycleResponse: %v", err)
			}
		}
	})
}

// A sample is answered as such where the host counted the nodes, and by a list where
// it told of all; ranks run parallel to candidates.
func TestPostFilterSamplesAndRanks(t *testing.T) {
	plugin := PostFilter{
		Name:    "P",
		Sample:  func(f *Failure) (Sample, Status) { return Sample{First: 1, Wanted: f.Helpful}, Status{} },
		Victims: func(*Cluster, *QueuedPod, *Node) Victims { return Victims{} },
		Choose:  func(*Tried) (Nomination, Status) { return Nomination{}, Refuse("no") },
		Rank: func(c *Candidate) []int64 {
			if len(c.Victims) == 0 {
				return nil
			}
			return []int64{-int64(c.Victims[0].Priority), int64(c.Violations), 1 << 40}
		},
	}
	req := &contractv1.CycleRequest{
		Steps: stepOf("P", contractv1.Point_POST_FILTER), Class: 7, Pods: []*contractv1.QueuedPod{queued("p", 9)},
		Nodes: []uint32{0, 1, 2}, Refused: []uint32{0, 1, 0},
		Refusals: []*contractv1.Refusal{{Plugin: "Fits", Reasons: []string{"full"}}, {Plugin: "Other", Code: contractv1.Code_UNSCHEDULABLE_AND_UNRESOLVABLE}},
	}
	resp, err := run(t, req, plugin)
	if err != nil {
		t.Fatal(err)
	}
	if trial := resp.Results[0].GetTrial(); trial.GetSampled() || !slices.Equal(trial.GetNodes(), []uint32{2, 0}) || trial.GetWanted() != 2 {
		t.Errorf("of all nodes: %v", resp)
	}
	req.Nodes, req.Refused, req.Refusals, req.Helpful = nil, nil, nil, 7
	if resp, err = run(t, req, plugin); err != nil {
		t.Fatal(err)
	}
	if trial := resp.Results[0].GetTrial(); !trial.GetSampled() || trial.GetFirst() != 1 || trial.GetWanted() != 7 || len(trial.GetNodes()) > 0 {
		t.Errorf("of a number: %v", resp)
	}
	resp, err = run(t, &contractv1.CycleRequest{
		Steps: stepOf("P", contractv1.Point_RANK), Class: 7, Pods: []*contractv1.QueuedPod{queued("p", 9)},
		Candidates: []*contractv1.Candidate{{Node: 0}, {Node: 1, Victims: []string{"w1"}, Violations: 1}, {Node: 99, Victims: []string{"w1"}}},
	}, plugin)
	if err != nil {
		t.Fatal(err)
	}
	if ranks := resp.Results[0].GetRanks(); len(ranks) != 3 || !slices.Equal(ranks[1].GetNumbers(), []int64{-3, 1, 1 << 40}) || len(ranks[0].GetNumbers())+len(ranks[2].GetNumbers()) > 0 {
		t.Errorf("ranks %v", ranks)
	}
	for _, half := range []PostFilter{
		{Name: "P", Sample: plugin.Sample}, {Name: "P", Rank: plugin.Rank, Nominate: func(*Failure) (Nomination, Status) { return Nomination{}, Status{} }},
		{Name: "P", Sample: plugin.Sample, Try: func(*Failure) (Trial, Status) { return Trial{}, Status{} }, Victims: plugin.Victims, Choose: plugin.Choose},
	} {
		if _, err := newServed(half); err == nil {
			t.Errorf("half a plugin was taken: %+v", half)
		}
	}
}
