package sdk

import (
	"testing"

	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// An update that has no name of its own is for those who take any; a named one
// also for those who name it (MatchClusterEvents of kube-scheduler).
func TestInterestMatches(t *testing.T) {
	for _, c := range []struct {
		interest, event Action
		want            bool
	}{
		{ActionAdd, ActionAdd, true},
		{ActionAdd | ActionUpdateNodeLabel, ActionUpdateNodeLabel, true},
		{ActionAdd, ActionUpdateNodeLabel, false},
		{ActionUpdate, ActionUpdateNodeTaint, true},
		{ActionUpdate, ActionUpdate, true},
		{ActionUpdateNodeLabel, ActionUpdate, false},
		{ActionAll, ActionDelete, true},
	} {
		i := Interest{Kind: KindNode, Actions: c.interest}
		got := i.matches(&Event{Kind: KindNode, Action: c.event})
		host := (&contractv1.Interest{Kind: KindNode, Actions: uint32(c.interest)}).Matches(KindNode, contractv1.Action(c.event))
		if got != c.want || host != c.want {
			t.Errorf("interest %d, event %d: %v, host %v", c.interest, c.event, got, host)
		}
	}
	all := Interest{Kind: KindAny, Actions: ActionAll}
	if !all.matches(&Event{Kind: "Service", Action: ActionUpdate}) {
		t.Error("* does not match")
	}
	for name, number := range contractv1.Action_value {
		if name == "ALL" && Action(number) != ActionAll || name == "UPDATE" && Action(number) != ActionUpdate {
			t.Errorf("%s is %d", name, number)
		}
	}
}

// Of each pod, the last event that helps; a function that panics helps.
func TestQueueingHint(t *testing.T) {
	g, err := GuestOf(Predicate{
		Name: "P", Filter: func(*Request) Verdict { return Fits() },
		Events: []Interest{
			{Kind: KindNode, Actions: ActionUpdateNodeLabel, Helps: func(_ *Cluster, p *Pod, e *Event) bool { return e.NewNode.Labels["for"] == p.Labels["is"] }},
			{Kind: KindPod, Actions: ActionDelete, Helps: func(_ *Cluster, p *Pod, e *Event) bool { return e.OldPod.Labels["x"] == "" || *(*bool)(nil) }},
			{Kind: "Service", Actions: ActionAll},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(mustMarshal(t, &contractv1.Delta{Generation: 1, Reset_: true, Operations: []*contractv1.Operation{{
		Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 7, Pod: &contractv1.Pod{Labels: map[string]string{"is": "b"}}}},
	}}})); err != nil {
		t.Fatal(err)
	}
	node := func(value string) *contractv1.Node { return &contractv1.Node{Labels: map[string]string{"for": value}} }
	ask := func(events ...*contractv1.Event) []uint32 {
		data, err := g.Cycle(t.Context(), mustMarshal(t, &contractv1.CycleRequest{
			Steps: []*contractv1.Step{{Plugin: "P", Point: contractv1.Point_QUEUEING_HINT}}, Events: events,
			Pods: []*contractv1.QueuedPod{{Pod: &contractv1.Pod{Labels: map[string]string{"is": "a"}}}, {}}, Classes: []uint32{0, 7},
		}))
		resp := &contractv1.CycleResponse{}
		if err != nil || proto.Unmarshal(data, resp) != nil || len(resp.Results) != 1 {
			t.Fatalf("%v, %v", resp, err)
		}
		return resp.Results[0].Helps
	}
	label := uint32(ActionUpdateNodeLabel)
	if got := ask(
		&contractv1.Event{Kind: KindNode, Action: label, OldNode: node(""), NewNode: node("a")},
		&contractv1.Event{Kind: KindNode, Action: label, OldNode: node(""), NewNode: node("b")},
		&contractv1.Event{Kind: KindNode, Action: label, OldNode: node(""), NewNode: node("a")},
		&contractv1.Event{Kind: KindNode, Action: label, OldNode: node(""), NewNode: node("c")},
	); len(got) != 2 || got[0] != 3 || got[1] != 2 {
		t.Errorf("helps %v", got)
	}
	if got := ask(&contractv1.Event{Kind: KindPod, Action: uint32(ActionDelete), OldPod: &contractv1.Pod{Labels: map[string]string{"x": "y"}}}); got[0] != 1 {
		t.Errorf("a panic: %v", got)
	}
	if got := ask(&contractv1.Event{Kind: "Service", Action: uint32(ActionDelete)}); got[0] != 1 {
		t.Errorf("no function: %v", got)
	}
	if got := ask(&contractv1.Event{Kind: "Secret", Action: uint32(ActionDelete)}); len(got) != 2 || got[0] != 0 {
		t.Errorf("no interest: %v", got)
	}
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
