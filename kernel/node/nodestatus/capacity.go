package nodestatus

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"pintle.dev/pintle/kernel/node/cgroup"
)

// hugePagesDirectory has a folder for each size of huge pages that the machine has.
const hugePagesDirectory = "/sys/kernel/mm/hugepages"

// hugePages reads how many bytes of huge pages there are, by the size of a page in bytes. A size without pages is there
// with 0.
func hugePages(dir string) map[int64]int64 {
	sizes := map[int64]int64{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return sizes // a kernel without huge pages
	}
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), "hugepages-")
		if !ok {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(text, "kB"), 10, 64)
		if err != nil || kilobytes <= 0 {
			continue
		}
		pages, err := strconv.ParseInt(line(filepath.Join(dir, e.Name(), "nr_hugepages")), 10, 64)
		if err != nil {
			continue
		}
		sizes[kilobytes<<10] = pages * kilobytes << 10
	}
	return sizes
}

// hugePageResource is the resource of huge pages of a size, such as hugepages-2Mi.
func hugePageResource(size int64) corev1.ResourceName {
	return corev1.ResourceName(corev1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String())
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// capacity is what the machine has, with overrides on top. What others say that the node has (extended resources, by
// an administrator or a device plugin) stays; huge pages of a size that the machine no longer has go.
func (m Machine) capacity(have corev1.ResourceList, disk int64, overrides corev1.ResourceList) corev1.ResourceList {
	own := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(m.CPUs)*1000, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(m.Memory, resource.BinarySI),
	}
	for size, bytes := range m.HugePages {
		own[hugePageResource(size)] = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	if disk > 0 {
		own[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(disk, resource.BinarySI)
	}
	for name, q := range overrides {
		own[name] = q.DeepCopy()
	}
	for name, q := range have {
		if _, ok := own[name]; !ok && !isHugePages(name) {
			own[name] = q.DeepCopy()
		}
	}
	return own
}

// allocatable is capacity without what is reserved, never below zero (ODD-16: a share, not a remainder). Memory in huge
// pages is of use to nobody else.
func allocatable(capacity, reserved corev1.ResourceList) corev1.ResourceList {
	out := without(capacity, reserved)
	for name, q := range capacity {
		if isHugePages(name) {
			out = without(out, corev1.ResourceList{corev1.ResourceMemory: q})
		}
	}
	return out
}

// without is a list without another one, never below zero.
func without(list, other corev1.ResourceList) corev1.ResourceList {
	out := list.DeepCopy()
	for name, q := range other {
		have, ok := out[name]
		if !ok {
			continue
		}
		have.Sub(q)
		if have.Sign() < 0 {
			have.Set(0)
		}
		out[name] = have
	}
	return out
}

// ResourcePID is the reserved resource of process ids; it is no resource of the Node.
const ResourcePID corev1.ResourceName = "pid"

// Bounds of the memory that is reserved by default.
const (
	leastReservedMemory = 256 << 20
	mostReservedMemory  = 2 << 30
)

// DefaultReservation is what a machine keeps for the kernel, its runtime and plugins where nobody says otherwise: a
// tenth of a CPU, a tenth of the memory within bounds (of a small machine never more than a quarter), 1000 processes.
func DefaultReservation(m Machine) corev1.ResourceList {
	memory := min(max(m.Memory/10, leastReservedMemory), mostReservedMemory, m.Memory/4)
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(100, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		ResourcePID:           *resource.NewQuantity(1000, resource.DecimalSI),
	}
}

// HugePageSizes are the sizes of huge pages of the machine, in bytes.
func (r *Reporter) HugePageSizes() []int64 { return slices.Sorted(maps.Keys(r.machine.HugePages)) }

// PodLimits are what the cgroup of all pods may have: the machine without what is reserved.
func (r *Reporter) PodLimits() cgroup.Limits {
	left := allocatable(corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(r.machine.CPUs)*1000, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(r.machine.Memory, resource.BinarySI),
		ResourcePID:           *resource.NewQuantity(r.machine.PIDs, resource.DecimalSI),
	}, r.cfg.Reserved)
	pids := left[ResourcePID]
	return cgroup.Limits{MemoryBytes: left.Memory().Value(), MilliCPU: left.Cpu().MilliValue(), PIDs: pids.Value()}
}

// maxPIDs is how many processes and threads the machine can have; 0: not known.
func maxPIDs() int64 {
	var least int64
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		if n, err := strconv.ParseInt(line(file), 10, 64); err == nil && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}
