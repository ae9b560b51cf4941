// Fits holds the predicates of the benchmark plugin: Room compares requests with
// what is allocatable, in a loop of its own; Fits, which has a twin in
// testdata/percall, looks at the node selector first, node by node.
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
	sdk.Register(sdk.Predicate{Name: "Room", Filter: room, FilterNodes: func(b *sdk.Batch) {
		cpu, memory := b.Pod.Requests.MilliCPU, b.Pod.Requests.Memory
		for k, n := range b.Nodes {
			if cpu > n.Allocatable.MilliCPU {
				b.Refuse(k, sdk.Unfit("Insufficient cpu"))
			} else if memory > n.Allocatable.Memory {
				b.Refuse(k, sdk.Unfit("Insufficient memory"))
			}
		}
	}})
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
