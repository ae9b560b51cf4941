package plugin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// resolve finds the units of a configuration, taking over the old ones that
// nothing changed about.
func (h *Host) resolve(cfg *Config, old []*unit) ([]*unit, error) {
	var units []*unit
	var faults []error
	seen := map[string]bool{}
	owner := map[string]string{}
	for _, bc := range cfg.Bundles {
		if seen[bc.Name] {
			faults = append(faults, fmt.Errorf("plugin bundle %s is configured twice", bc.Name))
			continue
		}
		seen[bc.Name] = true
		u, err := h.resolveUnit(cfg, bc)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		for _, e := range u.bundle.Manifest.Plugins {
			if other, twice := owner[e.Name]; twice {
				faults = append(faults, fmt.Errorf("plugin %s is in bundle %s and in bundle %s; load one of them", e.Name, other, bc.Name))
			}
			owner[e.Name] = bc.Name
		}
		for _, o := range old {
			if o.same(u) {
				u = o
				break
			}
		}
		units = append(units, u)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	for _, p := range cfg.Profiles {
		for _, name := range p.Predicates {
			faults = append(faults, known(units, name, sdk.KindPredicate, "scheduler profile "+p.SchedulerName))
		}
		for _, w := range p.Priorities {
			faults = append(faults, known(units, w.Name, sdk.KindPriority, "scheduler profile "+p.SchedulerName))
		}
	}
	for _, name := range cfg.Controllers {
		faults = append(faults, known(units, name, sdk.KindController, "controllers.enabled"))
	}
	return units, errors.Join(faults...)
}

func (h *Host) resolveUnit(cfg *Config, bc BundleConfig) (*unit, error) {
	b, err := Find(cfg.Directories, bc.Name)
	if err != nil {
		return nil, err
	}
	kind, a, err := b.artifact(bc.Transport)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(b.Directory, a.Path)); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: artefact: %w; build it with make", bc.Name, err)
	}
	m := b.Manifest
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
		call: lower(cfg.CallTimeout, m.Timeouts.Call), start: lower(cfg.StartTimeout, m.Timeouts.Start), stop: lower(cfg.StopTimeout, m.Timeouts.Stop),
		limits: cfg.ceilingsOf(&bc, m, kind), files: grantedFiles(bc.Files, m.Files),
		log: h.log.With("plugin", bc.Name), budget: newLogBudget(), stats: map[string]*stats{}, changed: h.changed,
		source: h.source,
		kick:   make(chan struct{}, 1), hungry: make(chan struct{}, 1), first: make(chan struct{}), ended: make(chan struct{}),
		state: v1alpha1.PluginStatePending, since: time.Now(),
	}
	u.words = budgeted(u.log, u.budget)
	if kind == TransportProcess {
		if u.confined, err = h.confinement(cfg, &bc, m, u.limits); err != nil {
			return nil, err
		}
	}
	if m.Privileged {
		// The operator trusts it, also with the time that it takes.
		u.start, u.stop = cmp.Or(m.Timeouts.Start, cfg.StartTimeout), cmp.Or(m.Timeouts.Stop, cfg.StopTimeout)
	}
	for _, e := range m.Plugins {
		u.stats[e.Name] = &stats{}
		scheduling := e.Kind == sdk.KindPredicate || e.Kind == sdk.KindPriority
		if kind == TransportWASM && !scheduling && e.Kind != sdk.KindController {
			return nil, fmt.Errorf("plugin bundle %s: %s %s needs the process transport", bc.Name, e.Kind, e.Name)
		}
	}
	return u, nil
}

// same reports whether a unit may go on in the place of another.
func (u *unit) same(other *unit) bool {
	return u.bundle.Directory == other.bundle.Directory && u.bundle.Manifest.Version == other.bundle.Manifest.Version &&
		u.transport == other.transport && u.digest == other.digest && bytes.Equal(u.config.Config, other.config.Config) &&
		u.config.OnFailure == other.config.OnFailure && u.call == other.call && u.start == other.start && u.stop == other.stop &&
		u.limits == other.limits && slices.Equal(u.files, other.files) && u.confined == other.confined
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

// ignores reports whether a failing call of a plugin is left out.
func (u *unit) ignores(e *Entry) bool {
	return cmp.Or(cmp.Or(u.config.OnFailure, e.OnFailure), u.bundle.Manifest.OnFailure) == OnFailureIgnore
}
