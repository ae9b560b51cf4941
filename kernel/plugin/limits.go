package plugin

import (
	"cmp"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/process"
)

// ceilingsOf is what a bundle gets: what the operator grants it, or all plugins,
// and no more than its manifest asks for.
func (c *Config) ceilingsOf(bc *BundleConfig, m *manifest.Manifest, transport string) process.Ceilings {
	granted := process.Ceilings{
		Memory: cmp.Or(bc.Limits.MemoryLimit(), c.ProcessMemoryLimit), MilliCPU: bc.Limits.MilliCPU(),
		Calls: cmp.Or(bc.Limits.CallsPerSecond, c.CallsPerSecond), PIDs: cmp.Or(bc.Limits.PIDs, c.PIDs),
	}
	switch {
	case transport == manifest.TransportWASM:
		granted.Memory = min(cmp.Or(bc.Limits.MemoryLimit(), c.MemoryLimit), manifest.MaxModuleMemory)
		granted.MilliCPU, granted.PIDs = 0, 0
	case m.Privileged:
		// What it starts outlives it and is not its own: containers.
		granted.Memory, granted.PIDs = bc.Limits.MemoryLimit(), bc.Limits.PIDs
	}
	return process.Ceilings{
		Memory: process.Lower(granted.Memory, m.Limits.MemoryLimit()), MilliCPU: process.Lower(granted.MilliCPU, m.Limits.MilliCPU()),
		Calls: process.Lower(granted.Calls, m.Limits.CallsPerSecond), PIDs: process.Lower(granted.PIDs, m.Limits.PIDs),
	}
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
