// Fits holds the predicates of the benchmark plugin: Room compares requests with
// what is allocatable; Fits, which has a twin in testdata/percall, looks at the
// node selector first.
package main

import "pintle.dev/pintle/sdk"

func init() {
	sdk.Register(sdk.Predicate{Name: "Fits", Filter: func(r *sdk.Request) sdk.Verdict {
		for key, value := range r.Pod.NodeSelector {
			if r.Node.Labels[key] != value {
				return sdk.Unfit("node(s) didn't match Pod's node selector")
			}
		}
		return room(r)
	}})
	sdk.Register(sdk.Predicate{Name: "Room", Filter: room})
}

func room(r *sdk.Request) sdk.Verdict {
	if r.Pod.Requests.MilliCPU > r.Node.Allocatable.MilliCPU {
		return sdk.Unfit("Insufficient cpu")
	}
	if r.Pod.Requests.Memory > r.Node.Allocatable.Memory {
		return sdk.Unfit("Insufficient memory")
	}
	return sdk.Fits()
}

func main() { sdk.Serve() }
