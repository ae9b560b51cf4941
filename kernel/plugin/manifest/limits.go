package manifest

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Limits are ceilings of what a bundle may use. In a manifest they say what it
// needs at most; the operator's, in the configuration or in a Plugin object,
// say what it gets at most. The lower one of both counts.
type Limits struct {
	// Memory of the WASM module, or of the process with its children and its
	// files in the page cache, as 256Mi.
	Memory string `yaml:"memory,omitempty"`
	// CPU of the process with its children, as 500m. Processes only.
	CPU string `yaml:"cpu,omitempty"`
	// CallsPerSecond to the API or to host functions; more are held up and then refused.
	CallsPerSecond int `yaml:"callsPerSecond,omitempty"`
	// PIDs is how many processes and threads there may be. Processes only.
	PIDs int `yaml:"pids,omitempty"`
}

// Bounds of what limits may say.
const (
	minMemory, maxMemory = 1 << 20, 1 << 40
	MaxModuleMemory      = 4 << 30
	minMilliCPU          = 10
	maxMilliCPU          = 1_000_000
	maxCallsPerSecond    = 1_000_000
	minPIDs, maxPIDs     = 4, 1_000_000
)

// LimitsOf are the limits of a Plugin object.
func LimitsOf(l *v1alpha1.PluginLimits) Limits {
	var out Limits
	if l == nil {
		return out
	}
	if l.Memory != nil {
		out.Memory = l.Memory.String()
	}
	if l.CPU != nil {
		out.CPU = l.CPU.String()
	}
	if l.CallsPerSecond != nil {
		out.CallsPerSecond = int(*l.CallsPerSecond)
	}
	if l.PIDs != nil {
		out.PIDs = int(*l.PIDs)
	}
	return out
}

// MemoryLimit returns the limit in bytes, or 0.
func (l Limits) MemoryLimit() int64 {
	q, err := resource.ParseQuantity(cmp.Or(l.Memory, "0"))
	if err != nil {
		return 0 // check refused it
	}
	return q.Value()
}

// MilliCPU returns the limit in thousandths of a CPU, or 0.
func (l Limits) MilliCPU() int64 {
	q, err := resource.ParseQuantity(cmp.Or(l.CPU, "0"))
	if err != nil {
		return 0
	}
	return q.MilliValue()
}

// faults says, by key, what is out of bounds.
func (l Limits) faults() map[string]string {
	out := map[string]string{}
	if l.Memory != "" {
		if q, err := resource.ParseQuantity(l.Memory); err != nil || q.Value() < minMemory || q.Value() > maxMemory {
			out["memory"] = fmt.Sprintf("%q; want 1Mi to 1Ti", l.Memory)
		}
	}
	if l.CPU != "" {
		if q, err := resource.ParseQuantity(l.CPU); err != nil || q.MilliValue() < minMilliCPU || q.MilliValue() > maxMilliCPU {
			out["cpu"] = fmt.Sprintf("%q; want 10m to 1000", l.CPU)
		}
	}
	if l.CallsPerSecond < 0 || l.CallsPerSecond > maxCallsPerSecond {
		out["callsPerSecond"] = fmt.Sprintf("%d; want 1 to 1000000", l.CallsPerSecond)
	}
	if l.PIDs != 0 && (l.PIDs < minPIDs || l.PIDs > maxPIDs) {
		out["pids"] = fmt.Sprintf("%d; want 4 to 1000000", l.PIDs)
	}
	return out
}
