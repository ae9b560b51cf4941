package sdk_test

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A predicate says of each node whether a pod can run there. It is a value; a
// plugin registers it in init, and main calls sdk.Serve.
func ExamplePredicate() {
	zones := sdk.Predicate{Name: "Zones", Filter: func(r *sdk.Request) sdk.Verdict {
		if zone := r.Pod.Labels["zone"]; zone != "" && zone != r.Node.Labels["zone"] {
			return sdk.Unfit("node(s) were in another zone")
		}
		return sdk.Fits()
	}}
	pod := &sdk.Pod{Labels: map[string]string{"zone": "west"}}
	for _, zone := range []string{"west", "east"} {
		node := &sdk.Node{Labels: map[string]string{"zone": zone}}
		fmt.Println(zone, zones.Filter(&sdk.Request{Pod: pod, Node: node}).Reasons)
	}
	// Output:
	// west []
	// east [node(s) were in another zone]
}

// A priority scores each node that fits. With a Normalize the host turns raw
// scores into 0 to 10 (or MaxScore); without, they are that already.
func ExamplePriority() {
	images := sdk.Priority{Name: "Images", Normalize: sdk.NormalizeMax, Score: func(r *sdk.Request) int64 {
		return int64(len(r.Node.Images))
	}}
	node := &sdk.Node{Images: make([]sdk.Image, 3)}
	fmt.Println(images.Score(&sdk.Request{Pod: &sdk.Pod{}, Node: node}))
	// Output: 3
}

// Prepare does once a class what Filter would do once a node.
func ExamplePredicate_prepare() {
	apart := sdk.Predicate{
		Name: "Apart", Scope: sdk.ScopeCluster,
		Prepare: func(_ *sdk.Cluster, pod *sdk.Pod) any { return "team-" + pod.Labels["team"] },
		Filter: func(r *sdk.Request) sdk.Verdict {
			if r.Node.Labels["reserved"] == r.State.(string) {
				return sdk.Fits()
			}
			return sdk.Unfit("node(s) were reserved for another team")
		},
	}
	pod := &sdk.Pod{Labels: map[string]string{"team": "blue"}}
	node := &sdk.Node{Labels: map[string]string{"reserved": "team-red"}}
	r := &sdk.Request{Pod: pod, Node: node, State: apart.Prepare(nil, pod)}
	fmt.Println(apart.Filter(r).Reasons)
	// Output: [node(s) were reserved for another team]
}

// A rule about time says until when its answer holds.
func ExampleRequest_Until() {
	maintenance := sdk.Predicate{Name: "Maintenance", Expires: true, Filter: func(r *sdk.Request) sdk.Verdict {
		from, err := time.Parse(time.RFC3339, r.Node.Annotations["example.com/maintenance"])
		switch {
		case err != nil:
			return sdk.Fits()
		case r.Now().Before(from):
			r.Until(from)
			return sdk.Fits()
		case r.Now().Before(from.Add(time.Hour)):
			r.Until(from.Add(time.Hour))
			return sdk.Unfit("node(s) were in maintenance")
		}
		return sdk.Fits()
	}}
	from := time.Date(2030, 1, 7, 12, 0, 0, 0, time.UTC)
	now := from.Add(-time.Minute)
	guest, err := sdk.GuestOf(maintenance)
	if err != nil {
		fmt.Println(err)
		return
	}
	guest.SetClock(func() time.Time { return now })
	delta, err := proto.Marshal(&contractv1.Delta{Reset_: true, Operations: []*contractv1.Operation{
		{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Node: &contractv1.Node{
			Name: "n", Annotations: map[string]string{"example.com/maintenance": from.Format(time.RFC3339)}}}}},
		{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 1, Pod: &contractv1.Pod{}}}},
	}})
	if err != nil || guest.Apply(delta) != nil {
		fmt.Println("no replica")
		return
	}
	verdict := make([]uint32, 1)
	for range 3 {
		if err := guest.Filter(0, 1, []uint32{0}, verdict); err != nil {
			fmt.Println(err)
		}
		until, _ := guest.Until(0)
		if until == 0 {
			fmt.Println(guest.Reasons(0, verdict[0]), "for ever")
			return
		}
		fmt.Println(guest.Reasons(0, verdict[0]), "until", time.UnixMilli(until).UTC().Format(time.TimeOnly))
		now = time.UnixMilli(until)
	}
	// Output:
	// [] until 12:00:00
	// [node(s) were in maintenance] until 13:00:00
	// [] for ever
}

// A permit plugin may let a pod wait on the node that it was given.
func ExamplePermit() {
	pairs := sdk.Permit{Name: "Pairs", Permit: func(r *sdk.PermitRequest) sdk.Status {
		if len(r.Waiting) == 0 {
			return sdk.WaitFor(30e9) // for the other one
		}
		r.Allow(r.Waiting[0].Pod.UID)
		return sdk.Status{}
	}}
	status := pairs.Permit(&sdk.PermitRequest{})
	fmt.Println(status.Code == sdk.Wait, status.Timeout)
	// Output: true 30s
}
