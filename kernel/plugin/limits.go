package plugin

import (
	"cmp"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// ceilings are limits in numbers; 0 is none.
type ceilings struct {
	memory, milliCPU int64
	calls, pids      int
}

// any reports whether there is one that a cgroup holds.
func (c ceilings) any() bool { return c.memory > 0 || c.milliCPU > 0 || c.pids > 0 }

// ceilingsOf is what a bundle gets: what the operator grants it, or all plugins,
// and no more than its manifest asks for.
func (c *Config) ceilingsOf(bc *BundleConfig, m *manifest.Manifest, transport string) ceilings {
	granted := ceilings{
		memory: cmp.Or(bc.Limits.MemoryLimit(), c.ProcessMemoryLimit), milliCPU: bc.Limits.MilliCPU(),
		calls: cmp.Or(bc.Limits.CallsPerSecond, c.CallsPerSecond), pids: cmp.Or(bc.Limits.PIDs, c.PIDs),
	}
	switch {
	case transport == manifest.TransportWASM:
		granted.memory = min(cmp.Or(bc.Limits.MemoryLimit(), c.MemoryLimit), manifest.MaxModuleMemory)
		granted.milliCPU, granted.pids = 0, 0
	case m.Privileged:
		// What it starts outlives it and is not its own: containers.
		granted.memory, granted.pids = bc.Limits.MemoryLimit(), bc.Limits.PIDs
	}
	return ceilings{
		memory: lower(granted.memory, m.Limits.MemoryLimit()), milliCPU: lower(granted.milliCPU, m.Limits.MilliCPU()),
		calls: lower(granted.calls, m.Limits.CallsPerSecond), pids: lower(granted.pids, m.Limits.PIDs),
	}
}

// lower is the lower one of what is granted and what is asked for; 0 is no limit.
func lower[T int | int64 | time.Duration](granted, asked T) T {
	if asked <= 0 || granted > 0 && granted < asked {
		return granted
	}
	return asked
}

// grantedFiles are the folders that a module may read: those that its manifest
// names and the operator grants.
func grantedFiles(granted, asked []string) []string {
	allowed := map[string]bool{}
	for _, path := range granted {
		allowed[path] = true
	}
	var out []string
	for _, path := range asked {
		if allowed[path] {
			out = append(out, path)
		}
	}
	return out
}
