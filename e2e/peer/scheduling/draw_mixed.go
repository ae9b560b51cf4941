package main

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// mixed draws clusters in which every plugin has something to say.
func mixed(d *draw) {
	d.nodes(10, 30)
	d.room()
	d.taintNodes(20)
	d.imagesOnNodes()
	d.namespaces()
	d.owners()
	d.csiNodes(6)
	d.class("local", "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer)
	for _, n := range d.c.Nodes {
		n.Spec.Unschedulable = d.chance(5)
	}
	for i := range 6 {
		name := fmt.Sprint("claim-", i)
		d.claim(name, "pv-"+name, "", v1.ReadWriteMany)
		v := d.volume("pv-"+name, name, "", v1.ReadWriteMany, d.volumeAffinity())
		if d.chance(40) {
			v.Labels = map[string]string{zone: pick(d, "zone-0", "zone-1", "zone-0__zone-1")}
		}
	}
	change := func(p *v1.Pod) {
		if d.chance(60) {
			d.consume(p, 2)
		}
		if d.chance(15) {
			d.ports(p, 2)
		}
		if d.chance(25) {
			d.podAffinityOf(p, 40)
		}
		d.owned(p)
		if d.chance(15) {
			d.mountClaim(p, fmt.Sprint("claim-", d.IntN(6)))
		}
		if d.chance(8) {
			d.mount(p, d.disk())
		}
	}
	d.occupy(4, change)
	d.ask(func(p *v1.Pod) {
		change(p)
		d.tolerate(p, 4)
		if d.chance(40) {
			d.affinityOf(p)
		}
		if d.chance(40) {
			d.constrain(p, 2)
		}
		if d.chance(30) {
			p.Spec.Containers[0].Image = pick(d, imageNames...)
		}
	})
}

// preempting draws full clusters and pods that are more important than others.
func preempting(d *draw) {
	d.nodes(4, 12)
	for _, n := range d.c.Nodes {
		n.Status.Allocatable[v1.ResourceCPU], n.Status.Allocatable[v1.ResourceMemory] = quantity("%d", 3+d.IntN(3)), quantity("%dGi", 6+d.IntN(6))
	}
	d.taintNodes(8)
	d.namespaces()
	for i := range d.IntN(4) {
		b := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: pick(d, "blue", "green", "red"), Name: fmt.Sprint("budget-", i), UID: types.UID(fmt.Sprint("uid-budget-", i))},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: d.selector(), MaxUnavailable: &intstr.IntOrString{IntVal: 1}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(d.IntN(3))},
		}
		if d.chance(20) {
			b.Status.DisruptedPods = map[string]metav1.Time{fmt.Sprintf("there-%03d", d.IntN(20)): metav1.Unix(1767323045, 0)}
		}
		d.add(b)
	}
	share := pick(d, 0, 0, 10)
	priority := func(p *v1.Pod, n int) {
		value := int32(100 * n)
		p.Spec.Priority = &value
	}
	d.occupy(9, func(p *v1.Pod) {
		priority(p, d.IntN(4))
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: quantity("%dm", 250*(1+d.IntN(8))), v1.ResourceMemory: quantity("%dMi", 512*(1+d.IntN(8)))}
		d.podAffinityOf(p, share)
		if d.chance(10) {
			d.ports(p, 1)
		}
	})
	d.fitting()
	d.ask(func(p *v1.Pod) {
		priority(p, 1+d.IntN(5))
		if d.chance(8) {
			never := v1.PreemptNever
			p.Spec.PreemptionPolicy = &never
		}
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: quantity("%dm", 1000*(1+d.IntN(4))), v1.ResourceMemory: quantity("%dGi", 1+d.IntN(6))}
		if d.chance(20) {
			d.ports(p, 2)
		}
		if d.chance(20) {
			d.podAffinityOf(p, 40)
		}
		if d.chance(20) {
			d.constrain(p, 2)
		}
		if d.chance(20) {
			p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		}
		d.tolerate(p, 2)
	})
}

// fitting takes away the pods for which there is no processor or memory left.
func (d *draw) fitting() {
	left := map[string]v1.ResourceList{}
	for _, n := range d.c.Nodes {
		left[n.Name] = n.Status.Allocatable.DeepCopy()
	}
	d.c.Pods = slices.DeleteFunc(d.c.Pods, func(p *v1.Pod) bool {
		room, asks := left[p.Spec.NodeName], p.Spec.Containers[0].Resources.Requests
		cpu, memory := room[v1.ResourceCPU], room[v1.ResourceMemory]
		cpu.Sub(asks[v1.ResourceCPU])
		memory.Sub(asks[v1.ResourceMemory])
		if cpu.Sign() < 0 || memory.Sign() < 0 {
			return true
		}
		room[v1.ResourceCPU], room[v1.ResourceMemory] = cpu, memory
		return false
	})
}
