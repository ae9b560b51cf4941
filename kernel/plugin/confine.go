package plugin

import (
	"fmt"
	"os"

	"pintle.dev/pintle/kernel/plugin/confinement"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/process"
)

// constraints are what the processes of a bundle are held to.
func (h *Host) constraints(cfg *Config, bc *BundleConfig, m *manifest.Manifest, limits process.Ceilings) (process.Constraints, error) {
	// Hosts of one process share what numbers and names come from.
	root := h
	if h.deps.Beside != nil {
		root = h.deps.Beside
	}
	c := process.Constraints{Limits: limits, Shared: cfg.SharedDirectory, Public: cfg.PublicDirectory, Cgroup: cfg.Cgroup, Groups: &root.groups, Apart: h.deps.Apart}
	if c.Shared == "" {
		c.Shared = cfg.RunDirectory
	}
	c.Scratch = &root.scratch
	var err error
	if c.Waived, err = confinement.Waive(cfg.RunWithout); err != nil {
		return c, fmt.Errorf("plugins.runWithout: %w", err)
	}
	c.Network, c.LowPorts = m.Network, m.Network && m.LowPorts && bc.LowPorts
	if m.Privileged {
		c.Privileged = true
		return c, nil
	}
	if os.Geteuid() != 0 {
		return c, nil
	}
	root.users.Configure(cfg.Users)
	c.User, err = root.users.Of(bc.Name + c.Apart)
	return c, err
}
