// Package nodeports is the predicate NodePorts: a node is unfit when a pod there
// has a host port that the pod wants, of the same protocol and at the same address
// or at any.
package nodeports

import (
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "NodePorts"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) didn't have free ports for the requested pod ports"

// anyAddress is what no address stands for: all of the host's.
const anyAddress = "0.0.0.0"

// New returns the predicate. It takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNode, Contract: contract.Three, Idle: idle, Filter: filter, Events: []sdk.Interest{
		{Kind: sdk.KindPod, Actions: sdk.ActionDelete, Helps: frees},
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd},
	}}
}

func idle(pod *sdk.Pod, _ any) bool { return len(pod.HostPorts) == 0 }

func filter(r *sdk.Request) sdk.Verdict {
	if len(r.Pod.HostPorts) == 0 {
		return sdk.Fits()
	}
	for _, pod := range r.Node.Pods {
		for i := range pod.HostPorts {
			for k := range r.Pod.HostPorts {
				if conflict(&pod.HostPorts[i], &r.Pod.HostPorts[k]) {
					return sdk.Unfit(Reason)
				}
			}
		}
	}
	return sdk.Fits()
}

// frees reports whether a pod that went had a port that the pod wants.
func frees(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	for i := range e.OldPod.HostPorts {
		for k := range pod.HostPorts {
			if conflict(&e.OldPod.HostPorts[i], &pod.HostPorts[k]) {
				return true
			}
		}
	}
	return false
}

func conflict(a, b *sdk.HostPort) bool {
	if a.Port != b.Port || a.Port <= 0 || protocol(a) != protocol(b) {
		return false
	}
	x, y := address(a), address(b)
	return x == y || x == anyAddress || y == anyAddress
}

func protocol(p *sdk.HostPort) string {
	if p.Protocol == "" {
		return "TCP"
	}
	return p.Protocol
}

func address(p *sdk.HostPort) string {
	if p.HostIP == "" {
		return anyAddress
	}
	return p.HostIP
}
