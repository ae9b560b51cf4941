package sdk_test

import (
	"fmt"

	"pintle.dev/pintle/sdk"
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
