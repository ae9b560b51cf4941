// Percall is the predicate of testdata/fits in the manner of
// kube-scheduler-wasm-extension: the host calls it once a node, and each call
// fetches the pod and the node as protobuf and decodes them.
package main

import (
	"unsafe"

	v1 "k8s.io/api/core/v1"
)

//go:wasmimport scheduler pod
func hostPod(buffer unsafe.Pointer, room uint32) uint32

//go:wasmimport scheduler node
func hostNode(buffer unsafe.Pointer, room uint32) uint32

//go:wasmimport scheduler reason
func hostReason(text unsafe.Pointer, size uint32)

// buffer receives objects; one that does not fit makes it grow.
var buffer = make([]byte, 16<<10)

func fetch(from func(unsafe.Pointer, uint32) uint32) []byte {
	size := from(unsafe.Pointer(&buffer[0]), uint32(len(buffer)))
	if int(size) > len(buffer) {
		buffer = make([]byte, size)
		from(unsafe.Pointer(&buffer[0]), size)
	}
	return buffer[:size]
}

func unfit(reason string) uint32 {
	hostReason(unsafe.Pointer(unsafe.StringData(reason)), uint32(len(reason)))
	return 2
}

// filter answers 0 for a node that fits, 1 for a fault and 2 with a reason.
//
//go:wasmexport filter
func filter() uint32 {
	var pod v1.Pod
	if pod.Unmarshal(fetch(hostPod)) != nil {
		return 1
	}
	var node v1.Node
	if node.Unmarshal(fetch(hostNode)) != nil {
		return 1
	}
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return unfit("node(s) didn't match Pod's node selector")
		}
	}
	var cpu, memory int64
	for i := range pod.Spec.Containers {
		requests := pod.Spec.Containers[i].Resources.Requests
		cpu += requests.Cpu().MilliValue()
		memory += requests.Memory().Value()
	}
	if cpu > node.Status.Allocatable.Cpu().MilliValue() {
		return unfit("Insufficient cpu")
	}
	if memory > node.Status.Allocatable.Memory().Value() {
		return unfit("Insufficient memory")
	}
	return 0
}

func main() {}
