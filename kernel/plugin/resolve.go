package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/output"
	"pintle.dev/pintle/kernel/plugin/process"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// resolve finds the units of a configuration's bundles, taking over the old
// ones that nothing changed about. Of the bundles it leaves those that can be used,
// in the order of their units; faults of installed ones are the plan's to tell.
func (h *Host) resolve(cfg *Config, old []*unit, p *plan) ([]*unit, error) {
	var units []*unit
	var bundles []BundleConfig
	var faults []error
	seen := map[string]bool{}
	owner := map[string]string{}
	configured := map[string]bool{}
	for _, bc := range cfg.Bundles {
		configured[bc.Name] = configured[bc.Name] || !bc.Installed
	}
	for _, bc := range cfg.Bundles {
		if seen[bc.Name] {
			faults = append(faults, fmt.Errorf("plugin bundle %s is configured twice", bc.Name))
			continue
		}
		seen[bc.Name] = true
		var u *unit
		var b *unusable
		var err error
		if bc.Installed {
			var held error
			if u, held, b = h.installedUnit(cfg, &bc, old); held != nil {
				p.held[bc.Name] = held
			}
		} else if u, err = h.resolveUnit(cfg, bc); err != nil {
			faults = append(faults, err)
			continue
		}
		if err := namedAlike(configured, owner, u, &bc); b == nil && err != nil {
			if b = newBroken(u, bc.Name, err); !bc.Installed {
				faults = append(faults, err)
				continue
			}
		}
		if b == nil {
			b = claim(owner, u, &bc, &faults)
		}
		if b != nil {
			p.broken[bc.Name] = b
			continue
		}
		for _, o := range old {
			if o.same(u) {
				u = o
				break
			}
		}
		units, bundles = append(units, u), append(bundles, bc)
	}
	cfg.Bundles = bundles
	return units, errors.Join(faults...)
}

// namedAlike finds a plugin and a bundle, not its own, of one name: both would be
// one identity of the API. What is only installed gives way to what the
// configuration names (configured, by bundle).
func namedAlike(configured map[string]bool, owner map[string]string, u *unit, bc *BundleConfig) error {
	if u == nil {
		return nil
	}
	for _, e := range u.bundle.Manifest.Plugins {
		if named, other := configured[e.Name]; other && e.Name != bc.Name && (named || bc.Installed) {
			return fmt.Errorf("plugin %s of bundle %s has the name of another bundle; load one of them", e.Name, bc.Name)
		}
	}
	if other, twice := owner[bc.Name]; twice && other != bc.Name {
		return fmt.Errorf("bundle %s has the name of plugin %s of bundle %s; load one of them", bc.Name, bc.Name, other)
	}
	return nil
}

// claim notes which plugins a bundle has. Where another one has one of them already,
// a bundle that is only installed gives way.
func claim(owner map[string]string, u *unit, bc *BundleConfig, faults *[]error) *unusable {
	for _, e := range u.bundle.Manifest.Plugins {
		other, twice := owner[e.Name]
		switch {
		case twice && bc.Installed:
			return newBroken(u, bc.Name, clash(e.Name, other, bc.Name))
		case twice:
			*faults = append(*faults, clash(e.Name, other, bc.Name))
		}
	}
	for _, e := range u.bundle.Manifest.Plugins {
		owner[e.Name] = bc.Name
	}
	return nil
}

// NameError is a name of the configuration that no loaded bundle has.
type NameError struct {
	// Profile is the schedulerName of the profile that has it, or empty.
	Profile string
	// Kind is what the name was to be, and where it stands.
	Kind, Name string
	text       string
}

func (e *NameError) Error() string { return e.text }

// checkNames checks that profiles and controllers name what the units have.
func (p *plan) checkNames() error {
	var faults []error
	why := ""
	for _, name := range slices.Sorted(maps.Keys(p.broken)) {
		why += "; installed bundle " + name + " is not loaded: " + p.broken[name].reason
	}
	check := func(profile, kind, name, where string) {
		if err := known(p.units, name, kind, where); err != nil {
			faults = append(faults, &NameError{Profile: profile, Kind: kind, Name: name, text: err.Error() + why})
		}
	}
	for i := range p.cfg.Profiles {
		profile := &p.cfg.Profiles[i]
		where := "scheduler profile " + profile.SchedulerName
		for _, name := range profile.Predicates {
			check(profile.SchedulerName, sdk.KindPredicate, name, where)
		}
		for _, w := range profile.Priorities {
			check(profile.SchedulerName, sdk.KindPriority, w.Name, where)
		}
		for _, kind := range sdk.CycleKinds() {
			for _, name := range profile.Points[kind] {
				check(profile.SchedulerName, kind, name, where)
			}
		}
	}
	for _, name := range p.cfg.Admission {
		check("", sdk.KindAdmission, name, "admission.enabled")
	}
	for _, name := range p.cfg.Controllers {
		where := "controllers.enabled"
		if slices.Contains(p.cfg.OnDemand, name) {
			where = "controllers.onDemand"
		}
		check("", sdk.KindController, name, where)
	}
	for _, name := range p.cfg.APIServers {
		check("", sdk.KindAPIServer, name, "apiServers.enabled")
	}
	for _, name := range p.cfg.Cloud {
		check("", sdk.KindCloud, name, "cloud.provider")
	}
	if len(p.cfg.Cloud) > 1 {
		faults = append(faults, fmt.Errorf("cloud providers %s are enabled, and each would answer for every service and node; disable all but one", strings.Join(p.cfg.Cloud, " and ")))
	}
	return errors.Join(faults...)
}

// locate finds the folder of a bundle. Without a version and a digest it is that
// of the directories, unless the operator said that another one takes its place,
// or else the one that is installed for use; with one of them, whichever is that
// build.
func (h *Host) locate(cfg *Config, bc BundleConfig) (*manifest.Bundle, error) {
	if bc.Directory != "" {
		b, err := manifest.ReadBundle(bc.Directory, bc.Name)
		if err == nil {
			b.Installed = bc.Placed
		}
		return b, err
	}
	asked := bc.Version != "" || bc.Digest != ""
	lying, lyingErr := manifest.Find(cfg.Directories, bc.Name)
	if lyingErr == nil && asked && lying.Is(bc.Version, bc.Digest) {
		return lying, nil
	}
	if lyingErr == nil && !asked && (h.deps.Bundles == nil || !h.deps.Bundles.Replaces(bc.Name)) {
		return lying, nil
	}
	if h.deps.Bundles != nil {
		switch dir, err := h.deps.Bundles.Find(bc.Name, bc.Version, bc.Digest); {
		case err == nil:
			b, err := manifest.ReadBundle(dir, bc.Name)
			if err == nil {
				b.Installed = true
			}
			return b, err
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("plugin bundle %s: %w", bc.Name, err)
		case lyingErr != nil && asked:
			return nil, err
		}
	}
	if lyingErr != nil {
		return nil, lyingErr
	}
	if bc.Version != "" && bc.Version != lying.Manifest.Version {
		return nil, fmt.Errorf("plugin bundle %s: version %s is not installed; %s has %s", bc.Name, bc.Version, lying.Directory, lying.Manifest.Version)
	}
	// A digest that is none of its own is told when the artefact is read.
	return lying, nil
}

// ungranted is what the manifest of a bundle asks for and the operator has not
// granted to this very bundle; nil: nothing.
func ungranted(b *manifest.Bundle, bc *BundleConfig) error {
	m := b.Manifest
	if m.Privileged && !bc.Privileged {
		return fmt.Errorf("plugin bundle %s: its manifest asks for the kernel's own user and rights (privileged); grant them with privileged: true beside its name in plugins.bundles, or leave it out", bc.Name)
	}
	if m.Network && !bc.Network && !m.Privileged {
		return fmt.Errorf("plugin bundle %s: its manifest asks for the machine's network (network); grant it with network: true beside its name in plugins.bundles, or leave it out", bc.Name)
	}
	if !b.Installed || !m.Privileged && !m.Network && len(grantedFiles(bc.Files, m.Files)) == 0 {
		return nil
	}
	own, err := b.Digest()
	if err != nil {
		return fmt.Errorf("plugin bundle %s: %w", bc.Name, err)
	}
	if bc.Granted == own {
		return nil
	}
	what := "files"
	switch {
	case m.Privileged:
		what = "privileged: true"
	case m.Network:
		what = "network: true"
	}
	return fmt.Errorf("plugin bundle %s: %s is granted in plugins.bundles to the bundle of plugins.directories, and this one is installed; if it is meant, put digest: %s beside the grant", bc.Name, what, own)
}

func (h *Host) resolveUnit(cfg *Config, bc BundleConfig) (*unit, error) {
	b, err := h.locate(cfg, bc)
	if err != nil {
		return nil, err
	}
	transport, m := bc.Transport, b.Manifest
	if p := m.Artifacts.Process; transport == "" && bc.Digest != "" && p != nil && p.Digest == bc.Digest {
		transport = manifest.TransportProcess // the digest says which of the two builds
	}
	kind, a, err := b.Artifact(transport)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(b.Directory, a.Path)); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: artefact: %w; build it with make", bc.Name, err)
	}
	digest := a.Digest
	if bc.Digest != "" && bc.Digest != digest {
		own, err := b.Digest()
		if err != nil {
			return nil, fmt.Errorf("plugin bundle %s: %w", bc.Name, err)
		}
		if bc.Digest != own {
			digest = bc.Digest
		}
	}
	u := &unit{
		bundle: b, config: bc, transport: kind, artifact: a, digest: digest, modules: cfg.Modules, run: cfg.RunDirectory,
		call: process.Lower(cmp.Or(bc.Timeout, cfg.CallTimeout), m.Timeouts.Call), start: process.Lower(cfg.StartTimeout, m.Timeouts.Start), stop: process.Lower(cfg.StopTimeout, m.Timeouts.Stop),
		limits: cfg.ceilingsOf(&bc, m, kind), files: grantedFiles(bc.Files, m.Files),
		budget: output.NewBudget(), stats: map[string]*stats{}, changed: h.changed, poke: h.pokeState,
		source: h.source, shadow: h.shadowStatus,
		idle: m.Timeouts.Idle, servers: h.servers, wake: make(chan struct{}, 1),
		kick: make(chan struct{}, 1), hungry: make(chan struct{}, 1), first: make(chan struct{}), ended: make(chan struct{}),
		state: v1alpha1.PluginStatePending, since: time.Now(),
	}
	if !u.scheduling() {
		u.changed = h.pokeState // no answer to the scheduler depends on it
	}
	u.log, u.words = h.loggers(b, u.budget)
	u.ungranted = ungranted(b, &bc)
	if kind == manifest.TransportProcess && u.ungranted == nil {
		if u.confined, err = h.constraints(cfg, &bc, m, u.limits); err != nil {
			return nil, err
		}
	}
	if kind == manifest.TransportWASM && (cfg.WASMWorker == WASMWorkerAll || cfg.WASMWorker == WASMWorkerInstalled && b.Installed) {
		u.worker = true
		if u.confined, err = h.constraints(cfg, &bc, &manifest.Manifest{Name: m.Name}, workerLimits(m, u.limits)); err != nil {
			return nil, err
		}
	}
	if m.Privileged {
		// The operator trusts it, also with the time that it takes.
		u.start, u.stop = cmp.Or(m.Timeouts.Start, cfg.StartTimeout), cmp.Or(m.Timeouts.Stop, cfg.StopTimeout)
	}
	for _, e := range m.Plugins {
		u.stats[e.Name] = &stats{}
		if kind == manifest.TransportWASM && !sdk.SchedulingKind(e.Kind) && e.Kind != sdk.KindController && e.Kind != sdk.KindAdmission {
			return nil, fmt.Errorf("plugin bundle %s: %s %s needs the process transport", bc.Name, e.Kind, e.Name)
		}
	}
	return u, nil
}

// same reports whether a unit may go on in the place of another. What its
// plugins are configured with may differ: that reaches a running guest.
func (u *unit) same(other *unit) bool {
	return u.bundle.Directory == other.bundle.Directory && u.bundle.Manifest.Version == other.bundle.Manifest.Version &&
		u.transport == other.transport && u.digest == other.digest &&
		u.call == other.call && u.start == other.start && u.stop == other.stop &&
		u.limits == other.limits && slices.Equal(u.files, other.files) && slices.Equal(u.config.HostFunctions, other.config.HostFunctions) && u.confined == other.confined && u.worker == other.worker
}

func (u *unit) entry(name string) *manifest.Entry {
	for i := range u.bundle.Manifest.Plugins {
		if e := &u.bundle.Manifest.Plugins[i]; e.Name == name {
			return e
		}
	}
	return nil
}

// holder returns the unit that holds a plugin of a kind, or nil.
func holder(units []*unit, name, kind string) (*unit, *manifest.Entry) {
	for _, u := range units {
		if e := u.entry(name); e != nil && e.Kind == kind {
			return u, e
		}
	}
	return nil, nil
}

func known(units []*unit, name, kind, where string) error {
	if u, _ := holder(units, name, kind); u != nil {
		return nil
	}
	var have []string
	for _, u := range units {
		for _, e := range u.bundle.Manifest.Plugins {
			if e.Kind == kind {
				have = append(have, e.Name)
			}
		}
	}
	slices.Sort(have)
	for _, u := range units {
		if e := u.entry(name); e != nil {
			return fmt.Errorf("%s: %s is a %s, not a %s; list it where those are", where, name, e.Kind, kind)
		}
	}
	return fmt.Errorf("%s: no loaded bundle has %s %q; there are: %s", where, kind, name, strings.Join(have, ", "))
}
