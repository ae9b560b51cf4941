package container

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Numbers of the kernel's CPU controller as Kubernetes uses them.
const (
	minShares    = 2
	maxShares    = 262144
	sharesPerCPU = 1024
	quotaPeriod  = 100000 // µs
	minQuota     = 1000   // µs
)

// Shares turns milli-CPUs into cgroup v1 shares (the runtime translates to weight on v2).
func Shares(milli int64) int64 {
	if milli == 0 {
		return minShares
	}
	return min(max(milli*sharesPerCPU/1000, minShares), maxShares)
}

// Quota turns milli-CPUs into µs a period; 0 stays 0 (no quota).
func Quota(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*quotaPeriod/1000, minQuota)
}

// Resources are the cgroup values of one container.
func Resources(pod *corev1.Pod, c *corev1.Container, memoryCapacity int64) *runtimeapi.LinuxContainerResources {
	limit := func(name corev1.ResourceName) resource.Quantity {
		q := c.Resources.Limits[name]
		if q.IsZero() {
			if podQ, ok := podLevelLimit(pod, name); ok {
				return podQ
			}
		}
		return q
	}
	cpuLimit, memLimit := limit(corev1.ResourceCPU), limit(corev1.ResourceMemory)
	r := &runtimeapi.LinuxContainerResources{
		CpuPeriod:          quotaPeriod,
		CpuQuota:           Quota(cpuLimit.MilliValue()),
		MemoryLimitInBytes: memLimit.Value(),
		OomScoreAdj:        OOMScore(pod, c, memoryCapacity),
	}
	if request, ok := c.Resources.Requests[corev1.ResourceCPU]; ok {
		r.CpuShares = Shares(request.MilliValue())
	} else {
		r.CpuShares = Shares(cpuLimit.MilliValue())
	}
	return r
}

// PodResources are the cgroup values of the whole pod: shares always, quota and memory only when each container has a
// limit (or the pod itself has).
func PodResources(pod *corev1.Pod) *runtimeapi.LinuxContainerResources {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	cpuLimited, memoryLimited := true, true
	for c := range All(pod) {
		cpuLimited = cpuLimited && !c.Resources.Limits.Cpu().IsZero()
		memoryLimited = memoryLimited && !c.Resources.Limits.Memory().IsZero()
	}
	if _, ok := podLevelLimit(pod, corev1.ResourceCPU); ok {
		cpuLimited = true
	}
	if _, ok := podLevelLimit(pod, corev1.ResourceMemory); ok {
		memoryLimited = true
	}
	r := &runtimeapi.LinuxContainerResources{CpuShares: Shares(requests.Cpu().MilliValue()), CpuPeriod: quotaPeriod}
	if requests.Cpu().IsZero() && cpuLimited {
		r.CpuShares = Shares(limits.Cpu().MilliValue())
	}
	if cpuLimited {
		r.CpuQuota = Quota(limits.Cpu().MilliValue())
	}
	if memoryLimited {
		r.MemoryLimitInBytes = limits.Memory().Value()
	}
	return r
}

// Overhead is the pod's sandbox overhead as cgroup values.
func Overhead(pod *corev1.Pod) *runtimeapi.LinuxContainerResources {
	r := &runtimeapi.LinuxContainerResources{}
	if pod.Spec.Overhead != nil {
		cpu, memory := pod.Spec.Overhead[corev1.ResourceCPU], pod.Spec.Overhead[corev1.ResourceMemory]
		r.CpuShares, r.CpuQuota, r.CpuPeriod = Shares(cpu.MilliValue()), Quota(cpu.MilliValue()), quotaPeriod
		r.MemoryLimitInBytes = memory.Value()
	}
	return r
}

// OOMScore orders containers for the kernel's OOM killer: Guaranteed -997, BestEffort 1000, Burstable between by how
// much of the node's memory is requested; node critical priority -997.
func OOMScore(pod *corev1.Pod, c *corev1.Container, memoryCapacity int64) int64 {
	const guaranteed, bestEffort = -997, 1000
	if pod.Spec.Priority != nil && *pod.Spec.Priority >= 2000001000 {
		return guaranteed
	}
	switch QOS(pod) {
	case corev1.PodQOSGuaranteed:
		return guaranteed
	case corev1.PodQOSBestEffort:
		return bestEffort
	}
	if memoryCapacity <= 0 {
		return bestEffort - 1
	}
	score := 1000 - 1000*c.Resources.Requests.Memory().Value()/memoryCapacity
	if IsSidecar(c) {
		// A sidecar dies no sooner than the most protected main container.
		for i := range pod.Spec.Containers {
			score = min(score, 1000-1000*pod.Spec.Containers[i].Resources.Requests.Memory().Value()/memoryCapacity)
		}
	}
	if score < 1000+guaranteed {
		return 1000 + guaranteed
	}
	return min(score, bestEffort-1)
}

// HugePageLimits are what a container may have of huge pages, of each of the sizes that the machine has: what its limits
// say, and otherwise nothing.
func HugePageLimits(c *corev1.Container, sizes []int64) []*runtimeapi.HugepageLimit {
	var out []*runtimeapi.HugepageLimit
	for _, size := range sizes {
		limit := c.Resources.Limits[corev1.ResourceName(corev1.ResourceHugePagesPrefix+resource.NewQuantity(size, resource.BinarySI).String())]
		out = append(out, &runtimeapi.HugepageLimit{PageSize: HugePageName(size), Limit: uint64(limit.Value())})
	}
	return out
}

// HugePageName is the name of a size of huge pages in cgroups, such as 2MB or 1GB.
func HugePageName(size int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GB", 1 << 30}, {"MB", 1 << 20}} {
		if size >= unit.size && size%unit.size == 0 {
			return strconv.FormatInt(size/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(size>>10, 10) + "KB"
}
