package main

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/plugins/readmes"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func member(name, gang, members string) *contractv1.Pod {
	return &contractv1.Pod{Namespace: "a", Name: name, Uid: name, Labels: map[string]string{labelGroup: gang, labelMember: members}}
}

// table is a guest over the bundle's plugins with one node.
type table struct {
	*sdk.Guest
	t          *testing.T
	generation uint64
}

func newTable(t *testing.T, config string) *table {
	g := &table{Guest: sdk.NewGuest(), t: t}
	if err := g.Configure(g.Index("Gang"), []byte(config)); err != nil {
		t.Fatal(err)
	}
	g.apply(&contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: 0, Node: &contractv1.Node{Name: "n"}}}})
	return g
}

func (g *table) apply(op *contractv1.Operation) {
	g.t.Helper()
	g.generation++
	data, err := proto.Marshal(&contractv1.Delta{Generation: g.generation, Reset_: g.generation == 1, Operations: []*contractv1.Operation{op}})
	if err != nil {
		g.t.Fatal(err)
	}
	if err := g.Apply(data); err != nil {
		g.t.Fatal(err)
	}
}

// place puts a pod on the node, as the host does before it asks.
func (g *table) place(pod *contractv1.Pod) {
	g.t.Helper()
	g.apply(&contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Pod: pod}}})
}

func (g *table) ask(step *contractv1.Step, pods ...*contractv1.QueuedPod) *contractv1.StepResult {
	g.t.Helper()
	data, err := proto.Marshal(&contractv1.CycleRequest{Steps: []*contractv1.Step{step}, Pods: pods, HasNode: true, NodeName: "n"})
	if err != nil {
		g.t.Fatal(err)
	}
	answer, err := g.Cycle(g.t.Context(), data)
	resp := &contractv1.CycleResponse{}
	if err != nil || proto.Unmarshal(answer, resp) != nil || len(resp.Results) != 1 {
		g.t.Fatalf("%v, %v", resp, err)
	}
	return resp.Results[0]
}

func waiting(since time.Duration, pods ...*contractv1.Pod) (list []*contractv1.WaitingPod) {
	for _, p := range pods {
		list = append(list, &contractv1.WaitingPod{Uid: p.Uid, WaitingNanoseconds: int64(since)})
	}
	return list
}

func permit(waiting []*contractv1.WaitingPod) *contractv1.Step {
	return &contractv1.Step{Plugin: "Gang", Point: contractv1.Point_PERMIT, Waiting: waiting}
}

// All members go when the last of those that are needed has a node.
func TestAllOrNone(t *testing.T) {
	g := newTable(t, `{"timeout":"30s"}`)
	a, b, c, other := member("a", "x", "3"), member("b", "x", "3"), member("c", "x", "3"), member("o", "y", "2")
	for k, p := range []*contractv1.Pod{a, b, other} {
		g.place(p)
		if r := g.ask(permit(waiting(0, []*contractv1.Pod{a, b}[:min(k, 2)]...)), &contractv1.QueuedPod{Pod: p}); r.Code != contractv1.Code_WAIT || r.WaitNanoseconds <= int64(30*time.Second) || len(r.Decisions) > 0 || r.Reasons[0] != []string{"gang x: 1 of 3 members have a node", "gang x: 2 of 3 members have a node", "gang y: 1 of 2 members have a node"}[k] {
			t.Fatalf("%s: %v", p.Name, r)
		}
	}
	g.place(c)
	r := g.ask(permit(waiting(0, a, b, other)), &contractv1.QueuedPod{Pod: c})
	if r.Code != contractv1.Code_SUCCESS || len(r.Decisions) != 2 || !r.Decisions[0].Allow || r.Decisions[0].Uid != "a" || r.Decisions[1].Uid != "b" {
		t.Errorf("%v", r)
	}
	alone := &contractv1.Pod{Namespace: "a", Name: "alone", Uid: "alone"}
	g.place(alone)
	if r := g.ask(permit(waiting(0, other)), &contractv1.QueuedPod{Pod: alone}); r.Code != contractv1.Code_SUCCESS || len(r.Decisions) != 0 {
		t.Errorf("without a group: %v", r)
	}
}

// After the time-out of one of them all give up.
func TestTimeout(t *testing.T) {
	g := newTable(t, `{"timeout":"30s"}`)
	a, b, other := member("a", "x", "3"), member("b", "x", "3"), member("o", "y", "2")
	for _, p := range []*contractv1.Pod{a, b, other} {
		g.place(p)
	}
	review := &contractv1.Step{Plugin: "Gang", Point: contractv1.Point_PERMIT_REVIEW, Waiting: append(waiting(29*time.Second, a), waiting(time.Second, b, other)...)}
	if r := g.ask(review); len(r.Decisions) != 0 {
		t.Errorf("too early: %v", r)
	}
	review.Waiting[0].WaitingNanoseconds = int64(30 * time.Second)
	r := g.ask(review)
	if len(r.Decisions) != 2 || r.Decisions[0].Allow || r.Decisions[1].Allow || r.Decisions[0].Reason != "gang x: 2 of 3 members have a node after 30s" {
		t.Errorf("%v", r)
	}
}

// Members stand together, at the place of the first of them.
func TestOrder(t *testing.T) {
	g := newTable(t, ``)
	key := func(p *contractv1.Pod, queued int64) string {
		r := g.ask(&contractv1.Step{Plugin: "GangSort", Point: contractv1.Point_QUEUE_SORT}, &contractv1.QueuedPod{Pod: p, QueuedUnixNano: queued})
		return fmt.Sprint(r.Keys[0].Number, r.Keys[0].Text)
	}
	first, stranger, second := key(member("a", "x", "2"), 1000), key(&contractv1.Pod{Name: "s", Uid: "s"}, 2000), key(member("b", "x", "2"), 3000)
	if first != second || second >= stranger {
		t.Errorf("first %s, second %s, between them %s", first, second, stranger)
	}
}

func TestConfigure(t *testing.T) {
	for _, config := range []string{`{"timeout":"x"}`, `{"timeout":"-1s"}`, `{"timeout":"16m"}`, `[]`} {
		g := &gang{}
		if err := g.configure([]byte(config)); err == nil {
			t.Errorf("%s: no error", config)
		}
	}
}

// What brings a group back that gave up: a fellow, or room that others left.
func TestHelps(t *testing.T) {
	pod := func(name string) *sdk.Pod {
		return &sdk.Pod{Namespace: "a", Labels: map[string]string{labelGroup: name}}
	}
	if !fellow(nil, pod("x"), &sdk.Event{NewPod: pod("x")}) || fellow(nil, pod("x"), &sdk.Event{NewPod: pod("y")}) {
		t.Error("fellow")
	}
	if stranger(nil, pod("x"), &sdk.Event{OldPod: pod("x")}) || !stranger(nil, pod("x"), &sdk.Event{OldPod: &sdk.Pod{Namespace: "a"}}) {
		t.Error("stranger")
	}
}

func TestReadme(t *testing.T) {
	readmes.Check(t, "README.md", sdk.NewGuest().Plugins()...)
}
