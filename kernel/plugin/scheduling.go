package plugin

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/process"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Scheduling is the part of the configuration in force that places pods: the
// profiles and, by their folders and digests, the bundles that hold their
// plugins. A host that is made of it answers as this one does, beside it.
func (h *Host) Scheduling() Config { return h.scheduling(nil) }

// Choosing is what of Scheduling says where a pod fits and how well: all that a
// simulation or a comparison asks. What comes before a pod is looked at, and what
// follows the choice, is left out, with the bundles of which nothing else is used.
func (h *Host) Choosing() Config {
	return h.scheduling([]string{sdk.KindPreFilter, sdk.KindPreScore})
}

// scheduling is Scheduling with the plugins of some kinds of points; nil: of all.
func (h *Host) scheduling(kinds []string) Config {
	p := h.present()
	out := p.cfg
	out.Bundles, out.Controllers, out.Cloud, out.Admission, out.APIServers, out.Silent, out.NodeName = nil, nil, nil, nil, nil, nil, ""
	if kinds != nil {
		out.Profiles = slices.Clone(out.Profiles)
		for i := range out.Profiles {
			points := maps.Clone(out.Profiles[i].Points)
			maps.DeleteFunc(points, func(kind string, _ []string) bool { return !slices.Contains(kinds, kind) })
			out.Profiles[i].Points = points
		}
	}
	for _, u := range p.units {
		if !u.places(out.Profiles) {
			continue
		}
		bc := p.configs[u]
		bc.Directory, bc.Transport, bc.Version, bc.Digest = u.bundle.Directory, u.transport, u.bundle.Manifest.Version, u.digest
		bc.Placed = u.bundle.Installed
		out.Bundles = append(out.Bundles, bc)
	}
	return out
}

// Alone takes out of a configuration what belongs to the kernel's process: for a
// host in another one.
func (c *Config) Alone() {
	c.Modules = c.Modules.Existing()
	c.RunDirectory, c.SharedDirectory, c.Cgroup, c.Users = "", "", "", process.Users{}
}

// places reports whether a profile uses a plugin of the unit.
func (u *unit) places(profiles []Profile) bool {
	for i := range u.bundle.Manifest.Plugins {
		e := &u.bundle.Manifest.Plugins[i]
		for _, p := range profiles {
			if e.Kind == sdk.KindPredicate && slices.Contains(p.Predicates, e.Name) ||
				e.Kind == sdk.KindPriority && slices.ContainsFunc(p.Priorities, func(w WeightedPriority) bool { return w.Name == e.Name }) ||
				slices.Contains(p.Points[e.Kind], e.Name) {
				return true
			}
		}
	}
	return false
}

// Replace puts another build of a bundle into a configuration: the one in a
// folder, which must hold a bundle of a name that is there. With a plugin's
// name instead of the bundle's, its bundle is meant. It returns the bundle's.
func (c *Config) Replace(name, directory string) (bundle string, err error) {
	m, err := manifest.Read(manifestIn(directory))
	if err != nil {
		return "", err
	}
	for i := range c.Bundles {
		bc := &c.Bundles[i]
		if bc.Name != m.Name {
			continue
		}
		if name != m.Name && !slices.ContainsFunc(m.Plugins, func(e manifest.Entry) bool { return e.Name == name }) {
			return "", fmt.Errorf("%s holds bundle %s, which has no plugin %s", directory, m.Name, name)
		}
		next := *bc // with its limits, grants and configuration
		next.Directory, next.Transport, next.Version, next.Digest = directory, "", "", ""
		// The same transport where it has both.
		if a := m.Artifacts; bc.Transport == manifest.TransportWASM && a.WASM != nil || bc.Transport == manifest.TransportProcess && a.Process != nil {
			next.Transport = bc.Transport
		}
		*bc = next
		return m.Name, nil
	}
	c.Bundles = append(c.Bundles, BundleConfig{Name: m.Name, Directory: directory})
	return m.Name, c.enable(m, name)
}

// enable puts the plugins of a bundle that is new, or one of them, into the
// first profile.
func (c *Config) enable(m *manifest.Manifest, name string) error {
	if len(c.Profiles) == 0 {
		return fmt.Errorf("bundle %s: there is no profile to put its plugins into", m.Name)
	}
	found := false
	for i := range m.Plugins {
		e := &m.Plugins[i]
		if name != m.Name && name != e.Name {
			continue
		}
		switch p := &c.Profiles[0]; e.Kind {
		case sdk.KindPredicate:
			p.Predicates, found = append(slices.Clone(p.Predicates), e.Name), true
		case sdk.KindPriority:
			p.Priorities, found = append(slices.Clone(p.Priorities), WeightedPriority{Name: e.Name, Weight: 1}), true
		}
	}
	if !found {
		return fmt.Errorf("bundle %s has no predicate or priority %s", m.Name, name)
	}
	return nil
}

func manifestIn(directory string) string { return filepath.Join(directory, manifest.File) }

// Locate finds the folder of a build of a bundle, by its version or the digest of
// one of its artefacts; empty ones leave it open.
func (h *Host) Locate(bundle, version, digest string) (string, error) {
	b, err := h.locate(&h.present().cfg, BundleConfig{Name: bundle, Version: version, Digest: digest})
	if err != nil {
		return "", err
	}
	if !b.Is(version, digest) {
		return "", fmt.Errorf("plugin bundle %s: build %s is not installed; %s has %s", bundle, strings.TrimSpace(version+" "+digest), b.Directory, b.Manifest.Version)
	}
	return b.Directory, nil
}

// SetShadows tells the host where the status of candidates comes from, by bundle.
func (h *Host) SetShadows(status func(bundle string) *v1alpha1.PluginShadowStatus) {
	h.shadows.Store(&status)
}

// shadowStatus is what is known of a bundle's candidate; nil: it has none.
func (h *Host) shadowStatus(bundle string) *v1alpha1.PluginShadowStatus {
	if status := h.shadows.Load(); status != nil {
		return (*status)(bundle)
	}
	return nil
}
