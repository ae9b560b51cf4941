package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Families about resources.

const (
	gpu      = v1.ResourceName("example.com/gpu")
	fpga     = v1.ResourceName("vendor.io/fpga")
	hugepage = v1.ResourceName("hugepages-2Mi")
)

func (d *draw) room() {
	for _, n := range d.c.Nodes {
		more := v1.ResourceList{}
		if d.chance(50) {
			more[gpu] = quantity("%d", d.IntN(5))
		}
		if d.chance(30) {
			more[fpga] = quantity("%d", d.IntN(3))
		}
		if d.chance(20) {
			more[hugepage] = quantity("%dMi", 2*d.IntN(64))
		}
		for name, q := range more {
			n.Status.Capacity[name], n.Status.Allocatable[name] = q, q
		}
		if d.chance(40) { // the system keeps some to itself
			cpu := n.Status.Allocatable[v1.ResourceCPU]
			cpu.Sub(resource.MustParse("500m"))
			n.Status.Allocatable[v1.ResourceCPU] = cpu
		}
		if d.chance(10) {
			n.Status.Allocatable[v1.ResourcePods] = quantity("%d", d.IntN(4))
		}
		if d.chance(5) {
			delete(n.Status.Allocatable, v1.ResourceEphemeralStorage)
		}
	}
}

// requests draws requests between nothing and much.
func (d *draw) requests(large int) v1.ResourceList {
	out := v1.ResourceList{}
	if d.chance(80) {
		out[v1.ResourceCPU] = quantity("%dm", pick(d, 0, 1, 33, 100, 250, 1000*(1+d.IntN(large))))
	}
	if d.chance(80) {
		out[v1.ResourceMemory] = quantity("%dMi", pick(d, 0, 1, 100, 257, 1024*(1+d.IntN(large))))
	}
	if d.chance(20) {
		out[v1.ResourceEphemeralStorage] = quantity("%dGi", d.IntN(3*large))
	}
	if d.chance(15) {
		out[gpu] = quantity("%d", d.IntN(3))
	}
	if d.chance(8) {
		out[fpga] = quantity("%d", d.IntN(2))
	}
	if d.chance(5) {
		out[hugepage] = quantity("%dMi", 2*d.IntN(16))
	}
	if d.chance(2) {
		out["unknown.io/thing"] = quantity("%d", d.IntN(2))
	}
	return out
}

// consume gives a pod containers of all kinds.
func (d *draw) consume(p *v1.Pod, large int) {
	always := v1.ContainerRestartPolicyAlways
	p.Spec.Containers = nil
	for i := range 1 + d.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: string(rune('a' + i)), Image: "registry.example/app:v1", Resources: v1.ResourceRequirements{Requests: d.requests(large)}})
	}
	for i := range d.IntN(3) {
		if !d.chance(50) {
			continue
		}
		c := v1.Container{Name: "init-" + string(rune('a'+i)), Image: "registry.example/init:v1", Resources: v1.ResourceRequirements{Requests: d.requests(large)}}
		if d.chance(50) {
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if d.chance(10) {
		p.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: quantity("%dm", 10*d.IntN(50)), v1.ResourceMemory: quantity("%dMi", d.IntN(200))}
	}
	if d.chance(12) { // of the whole pod, at least what its containers ask for
		whole := v1.ResourceList{}
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			if !d.chance(70) {
				continue
			}
			var sum resource.Quantity
			for _, c := range append(append([]v1.Container{}, p.Spec.Containers...), p.Spec.InitContainers...) {
				sum.Add(c.Resources.Requests[name])
			}
			if name == v1.ResourceCPU {
				sum.Add(quantity("%dm", d.IntN(500)))
			} else {
				sum.Add(quantity("%dMi", d.IntN(500)))
			}
			whole[name] = sum
		}
		if len(whole) > 0 {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: whole}
		}
	}
}

// resized makes some running pods have other resources than their spec asks for.
func (d *draw) resized(p *v1.Pod) {
	if p.Spec.NodeName == "" || p.Spec.Resources != nil || !d.chance(10) {
		return
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		allocated := v1.ResourceList{}
		for name := range c.Resources.Requests {
			if name == v1.ResourceCPU {
				allocated[name] = quantity("%dm", 100*d.IntN(20))
			} else {
				allocated[name] = c.Resources.Requests[name]
			}
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
			Name: c.Name, AllocatedResources: allocated, Resources: &v1.ResourceRequirements{Requests: allocated},
		})
	}
	if d.chance(30) {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonInfeasible, LastTransitionTime: metav1.Time{}})
	}
}

func weighted(d *draw) []any {
	out := []any{}
	for _, name := range some(d, 1+d.IntN(3), "cpu", "memory", string(gpu), "ephemeral-storage", string(fpga)) {
		out = append(out, map[string]any{"name": name, "weight": 1 + d.IntN(5)})
	}
	return out
}

func (d *draw) fitArguments() {
	args := map[string]any{}
	strategy := map[string]any{"type": pick(d, "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")}
	if d.chance(70) {
		strategy["resources"] = weighted(d)
	}
	if strategy["type"] == "RequestedToCapacityRatio" {
		shape := []any{}
		for _, at := range some(d, 2+d.IntN(3), 0, 10, 35, 50, 75, 90, 100) {
			shape = append(shape, map[string]any{"utilization": at, "score": d.IntN(11)})
		}
		strategy["requestedToCapacityRatio"] = map[string]any{"shape": shape}
	}
	args["scoringStrategy"] = strategy
	if d.chance(20) {
		args["ignoredResources"] = []string{string(fpga)}
	}
	if d.chance(20) {
		args["ignoredResourceGroups"] = []string{pick(d, "example.com", "vendor.io", "unknown.io")}
	}
	d.configure("NodeResourcesFit", args)
}

func resources(d *draw) {
	d.nodes(5, 25)
	d.room()
	if d.chance(60) {
		d.fitArguments()
	}
	d.occupy(5, func(p *v1.Pod) { d.consume(p, 2); d.resized(p) })
	d.ask(func(p *v1.Pod) { d.consume(p, 8) })
}

func balanced(d *draw) {
	d.nodes(5, 25)
	d.room()
	if d.chance(50) {
		list := []any{}
		for _, name := range some(d, 1+d.IntN(4), "cpu", "memory", string(gpu), "ephemeral-storage") {
			list = append(list, map[string]any{"name": name, "weight": 1})
		}
		d.configure("NodeResourcesBalancedAllocation", map[string]any{"resources": list})
	}
	d.occupy(5, func(p *v1.Pod) { d.consume(p, 2) })
	d.ask(func(p *v1.Pod) { d.consume(p, 3) })
}
