package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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

// checkNames checks that profiles and controllers name what the units have.
func checkNames(cfg *Config, units []*unit) error {
	var faults []error
	for _, p := range cfg.Profiles {
		for _, name := range p.Predicates {
			faults = append(faults, known(units, name, sdk.KindPredicate, "scheduler profile "+p.SchedulerName))
		}
		for _, w := range p.Priorities {
			faults = append(faults, known(units, w.Name, sdk.KindPriority, "scheduler profile "+p.SchedulerName))
		}
		for _, kind := range sdk.CycleKinds() {
			for _, name := range p.Points[kind] {
				faults = append(faults, known(units, name, kind, "scheduler profile "+p.SchedulerName))
			}
		}
	}
	for _, name := range cfg.Admission {
		faults = append(faults, known(units, name, sdk.KindAdmission, "admission.enabled"))
	}
	for _, name := range cfg.Controllers {
		faults = append(faults, known(units, name, sdk.KindController, "controllers.enabled"))
	}
	return errors.Join(faults...)
}

// locate finds the folder of a bundle. Without a version and a digest it is the
// one that is installed for use, or else that of the directories; with one of
// them, whichever is that build.
func (h *Host) locate(cfg *Config, bc BundleConfig) (*Bundle, error) {
	if bc.Directory != "" {
		return readBundle(bc.Directory, bc.Name)
	}
	asked := bc.Version != "" || bc.Digest != ""
	lying, lyingErr := Find(cfg.Directories, bc.Name)
	if lyingErr == nil && asked && lying.is(bc.Version, bc.Digest) {
		return lying, nil
	}
	if h.deps.Bundles != nil {
		switch dir, err := h.deps.Bundles.Find(bc.Name, bc.Version, bc.Digest); {
		case err == nil:
			return readBundle(dir, bc.Name)
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

func readBundle(dir, name string) (*Bundle, error) {
	m, err := ReadManifest(filepath.Join(dir, ManifestFile))
	if err != nil {
		return nil, err
	}
	if m.Name != name {
		return nil, fmt.Errorf("plugin bundle %s: %s holds bundle %q", name, dir, m.Name)
	}
	return &Bundle{Directory: dir, Manifest: m}, nil
}

// is reports whether a bundle is the build that was asked for.
func (b *Bundle) is(version, digest string) bool {
	a := b.Manifest.Artifacts
	return (version == "" || version == b.Manifest.Version) &&
		(digest == "" || a.WASM != nil && a.WASM.Digest == digest || a.Process != nil && a.Process.Digest == digest)
}

func (h *Host) resolveUnit(cfg *Config, bc BundleConfig) (*unit, error) {
	b, err := h.locate(cfg, bc)
	if err != nil {
		return nil, err
	}
	transport, m := bc.Transport, b.Manifest
	if p := m.Artifacts.Process; transport == "" && bc.Digest != "" && p != nil && p.Digest == bc.Digest {
		transport = TransportProcess // the digest says which of the two builds
	}
	kind, a, err := b.artifact(transport)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(b.Directory, a.Path)); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: artefact: %w; build it with make", bc.Name, err)
	}
	digest := a.Digest
	if bc.Digest != "" {
		digest = bc.Digest
	}
	cache := filepath.Join(b.Directory, compiledDirectory)
	// wazero writes what its cache lacks, and fails where it may not: a bundle
	// that another user sealed is compiled once into a cache of our own.
	if unix.Access(cache, unix.R_OK|unix.W_OK|unix.X_OK) != nil && cfg.CacheDirectory != "" {
		cache = cfg.CacheDirectory
	}
	u := &unit{
		bundle: b, config: bc, transport: kind, artifact: a, digest: digest, cache: cache, run: cfg.RunDirectory,
		call: lower(cmp.Or(bc.Timeout, cfg.CallTimeout), m.Timeouts.Call), start: lower(cfg.StartTimeout, m.Timeouts.Start), stop: lower(cfg.StopTimeout, m.Timeouts.Stop),
		limits: cfg.ceilingsOf(&bc, m, kind), files: grantedFiles(bc.Files, m.Files),
		budget: newLogBudget(), stats: map[string]*stats{}, changed: h.changed,
		source: h.source, shadow: h.shadowStatus,
		kick: make(chan struct{}, 1), hungry: make(chan struct{}, 1), first: make(chan struct{}), ended: make(chan struct{}),
		state: v1alpha1.PluginStatePending, since: time.Now(),
	}
	u.log, u.words = h.loggers(b, u.budget)
	if kind == TransportProcess {
		if u.confined, err = h.constraints(cfg, &bc, m, u.limits); err != nil {
			return nil, err
		}
	}
	if m.Privileged {
		// The operator trusts it, also with the time that it takes.
		u.start, u.stop = cmp.Or(m.Timeouts.Start, cfg.StartTimeout), cmp.Or(m.Timeouts.Stop, cfg.StopTimeout)
	}
	for _, e := range m.Plugins {
		u.stats[e.Name] = &stats{}
		if kind == TransportWASM && !sdk.SchedulingKind(e.Kind) && e.Kind != sdk.KindController && e.Kind != sdk.KindAdmission {
			return nil, fmt.Errorf("plugin bundle %s: %s %s needs the process transport", bc.Name, e.Kind, e.Name)
		}
	}
	return u, nil
}

// candidate makes a unit for another build of a bundle, configured and limited
// as the present one is, that is in no profile. Neither it nor its supervisor
// runs until audition.
func (h *Host) candidate(bundle, version, digest string) (*unit, error) {
	h.mu.Lock()
	cfg := h.plan.cfg
	h.mu.Unlock()
	for _, bc := range cfg.Bundles {
		if bc.Name == bundle {
			bc.Version, bc.Digest = version, digest
			return h.resolveUnit(&cfg, bc)
		}
	}
	return nil, fmt.Errorf("plugin bundle %s is not loaded", bundle)
}

// same reports whether a unit may go on in the place of another. What its
// plugins are configured with may differ: that reaches a running guest.
func (u *unit) same(other *unit) bool {
	return u.bundle.Directory == other.bundle.Directory && u.bundle.Manifest.Version == other.bundle.Manifest.Version &&
		u.transport == other.transport && u.digest == other.digest &&
		u.call == other.call && u.start == other.start && u.stop == other.stop &&
		u.limits == other.limits && slices.Equal(u.files, other.files) && slices.Equal(u.config.HostFunctions, other.config.HostFunctions) && u.confined == other.confined
}

func (u *unit) entry(name string) *Entry {
	for i := range u.bundle.Manifest.Plugins {
		if e := &u.bundle.Manifest.Plugins[i]; e.Name == name {
			return e
		}
	}
	return nil
}

// holder returns the unit that holds a plugin of a kind, or nil.
func holder(units []*unit, name, kind string) (*unit, *Entry) {
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
	return fmt.Errorf("%s: no loaded bundle has %s %q; there are: %s", where, kind, name, strings.Join(have, ", "))
}
