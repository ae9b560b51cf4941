package convert

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// nonMissing is what scoring counts for a container that requests nothing (FIL-3).
var nonMissing = v1.ResourceList{
	v1.ResourceCPU:    resource.MustParse("100m"),
	v1.ResourceMemory: resource.MustParse("200Mi"),
}

// scoredRequests is what scores count of a pod with what is assumed: of one that asks
// for a node, and of one that is placed. They differ for pods with requests as a
// whole, which kube-scheduler's NodeResourcesFit leaves out of what the asking pod
// wants; of a placed one it counts them, and assumes only what neither the pod nor
// any container requests.
func scoredRequests(pod *v1.Pod) (asking, placed v1.ResourceList) {
	asking = podRequests(pod, nonMissing, false)
	if !podresource.IsPodLevelRequestsSet(pod) {
		return asking, asking
	}
	return asking, podRequests(pod, unrequested(podRequests(pod, nil, true)), true)
}

// unrequested is what is assumed of resources that a list has not.
func unrequested(requests v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for name, quantity := range nonMissing {
		if _, ok := requests[name]; !ok {
			out[name] = quantity
		}
	}
	return out
}

// podRequests is what a pod takes: the sum of its containers and sidecars, or what its
// init containers take at most before, or, if asked for and by resource, what it
// requests as a whole; with its overhead. assume stands for what a container does not request. Of a
// container that is being resized the largest of spec, allocation and actual
// resources counts, each container by itself: kube-scheduler 1.36's rule, where the
// library of 1.37 compares the sums.
func podRequests(pod *v1.Pod, assume v1.ResourceList, asWhole bool) v1.ResourceList {
	out, before, sidecars := v1.ResourceList{}, v1.ResourceList{}, v1.ResourceList{}
	infeasible := podresource.IsPodResizeInfeasible(pod)
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		addRequests(out, containerRequests(c, pod.Status.ContainerStatuses, infeasible), assume)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			requests := containerRequests(c, pod.Status.InitContainerStatuses, infeasible)
			addRequests(out, requests, assume)
			addRequests(sidecars, requests, assume)
			raiseRequests(before, sidecars)
			continue
		}
		while := v1.ResourceList{}
		addRequests(while, c.Resources.Requests, assume)
		addRequests(while, sidecars, nil)
		raiseRequests(before, while)
	}
	raiseRequests(out, before)
	if asWhole && podresource.IsPodLevelRequestsSet(pod) {
		whole := pod.Spec.Resources.Requests
		if pod.Status.Resources != nil {
			whole = largestRequests(whole, pod.Status.Resources.Requests, pod.Status.AllocatedResources, infeasible)
		}
		for name := range pod.Spec.Resources.Requests {
			if podresource.IsSupportedPodLevelResource(name) {
				out[name] = whole[name]
			}
		}
	}
	addRequests(out, pod.Spec.Overhead, nil)
	return out
}

// containerRequests is what counts of a container; it is not to be changed.
func containerRequests(c *v1.Container, statuses []v1.ContainerStatus, infeasible bool) v1.ResourceList {
	for i := range statuses {
		if s := &statuses[i]; s.Name == c.Name && s.Resources != nil {
			return largestRequests(c.Resources.Requests, s.Resources.Requests, s.AllocatedResources, infeasible)
		}
	}
	return c.Resources.Requests
}

// largestRequests is by resource the largest; a resize that cannot be leaves the
// spec out.
func largestRequests(spec, actual, allocated v1.ResourceList, infeasible bool) v1.ResourceList {
	out := v1.ResourceList{}
	if !infeasible {
		raiseRequests(out, spec)
	}
	raiseRequests(out, actual)
	raiseRequests(out, allocated)
	return out
}

// addRequests adds to a list, with what is assumed of resources that requests lacks.
func addRequests(to, requests, assume v1.ResourceList) {
	add := func(name v1.ResourceName, quantity resource.Quantity) {
		sum, ok := to[name]
		if !ok {
			to[name] = quantity.DeepCopy()
			return
		}
		sum.Add(quantity)
		to[name] = sum
	}
	for name, quantity := range requests {
		add(name, quantity)
	}
	for name, quantity := range assume {
		if _, ok := requests[name]; !ok {
			add(name, quantity)
		}
	}
}

// raiseRequests raises a list to another.
func raiseRequests(to, other v1.ResourceList) {
	for name, quantity := range other {
		if have, ok := to[name]; !ok || quantity.Cmp(have) > 0 {
			to[name] = quantity.DeepCopy()
		}
	}
}

// amountMax is more than any node has. What is beyond a number, or near its end,
// counts as so much: 255 of it on one node, more than pods there can be, still are a number.
const amountMax = math.MaxInt64 >> 8

// amount is a quantity in whole units, rounded up.
func amount(q *resource.Quantity) int64 {
	if q.CmpInt64(amountMax) > 0 {
		return amountMax
	}
	return q.Value()
}

// milli is a quantity in thousandths, rounded up.
func milli(q *resource.Quantity) int64 {
	if q.CmpInt64(amountMax/1000) > 0 {
		return amountMax
	}
	return q.MilliValue()
}
