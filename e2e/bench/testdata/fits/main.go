// Fits is the predicate that the benchmark plugin compares with its twin in
// testdata/percall: node selector, and requests within what is allocatable.
package main

import "pintle.dev/pintle/sdk"

func init() {
	sdk.Register(sdk.Predicate{Name: "Fits", Filter: func(r *sdk.Request) sdk.Verdict {
		for key, value := range r.Pod.NodeSelector {
			if r.Node.Labels[key] != value {
				return sdk.Unfit("node(s) didn't match Pod's node selector")
			}
		}
		if r.Pod.Requests.MilliCPU > r.Node.Allocatable.MilliCPU {
			return sdk.Unfit("Insufficient cpu")
		}
		if r.Pod.Requests.Memory > r.Node.Allocatable.Memory {
			return sdk.Unfit("Insufficient memory")
		}
		return sdk.Fits()
	}})
}

func main() { sdk.Serve() }
