package noderesources

import (
	"strings"

	"pintle.dev/pintle/sdk"
)

const (
	domain   = "kubernetes.io/"
	requests = "requests."
)

// Scalar reports whether a resource other than CPU, memory, storage and pods is
// counted: extended resources, huge pages, attachable volumes and what else is of
// kubernetes.io.
func Scalar(name string) bool {
	return Extended(name) || strings.Contains(name, domain) ||
		strings.HasPrefix(name, "hugepages-") || strings.HasPrefix(name, "attachable-volumes-")
}

// Extended reports whether a resource is of a domain other than kubernetes.io.
func Extended(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, domain) && !strings.HasPrefix(name, requests)
}

// Resource is a resource that scores count, with its weight from 1 to 100.
type Resource struct {
	Name   string `json:"name"`
	Weight int64  `json:"weight"`
}

// Default is what scores count where nothing is said.
func Default() []Resource { return []Resource{{"cpu", 1}, {"memory", 1}} }

// Amount is one resource of a node, and with a pod on it. Allocatable is 0 where
// the resource is left out of the score.
type Amount struct {
	Requested   int64 // with the pod
	Allocated   int64 // without it
	Allocatable int64
}

// Count says how amounts are counted.
type Count struct {
	Resources []Resource
	// Assume counts 100m of CPU and 200Mi for each container that asks for none.
	Assume bool
}

// Wanted is what a pod asks for of each resource.
func (c *Count) Wanted(pod *sdk.Pod) []int64 {
	out := make([]int64, len(c.Resources))
	for i := range c.Resources {
		switch name := c.Resources[i].Name; name {
		case "cpu":
			if out[i] = pod.Requests.MilliCPU; c.Assume {
				out[i] = pod.NonZeroMilliCPU
			}
		case "memory":
			if out[i] = pod.Requests.Memory; c.Assume {
				out[i] = pod.NonZeroMemory
			}
		case "ephemeral-storage":
			out[i] = pod.Requests.EphemeralStorage
		default:
			out[i] = pod.Requests.Scalar[name]
		}
	}
	return out
}

// Plain reports that CPU and memory are counted, in this order and with a weight of 1
// each: the default, for which priorities have a loop without names.
func (c *Count) Plain() bool {
	return len(c.Resources) == 2 && c.Resources[0] == Resource{"cpu", 1} && c.Resources[1] == Resource{"memory", 1}
}

// Of fills in the amounts of a node for a pod that wants so much.
func (c *Count) Of(node *sdk.Node, wanted []int64, out []Amount) {
	for i := range c.Resources {
		a := &out[i]
		switch name := c.Resources[i].Name; name {
		case "cpu":
			a.Allocatable, a.Allocated = node.Allocatable.MilliCPU, node.Requested.MilliCPU
			if c.Assume {
				a.Allocated = node.NonZeroMilliCPU
			}
		case "memory":
			a.Allocatable, a.Allocated = node.Allocatable.Memory, node.Requested.Memory
			if c.Assume {
				a.Allocated = node.NonZeroMemory
			}
		case "ephemeral-storage":
			a.Allocatable, a.Allocated = node.Allocatable.EphemeralStorage, node.Requested.EphemeralStorage
		default:
			a.Allocatable, a.Allocated = 0, 0
			// One that the pod does not ask for says nothing about the node.
			if wanted[i] != 0 || !Scalar(name) {
				a.Allocatable, a.Allocated = node.Allocatable.Scalar[name], node.Requested.Scalar[name]
			}
		}
		a.Requested = a.Allocated + wanted[i]
	}
}
