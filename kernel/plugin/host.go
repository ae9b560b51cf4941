package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// retireAfter bounds how long replaced bundles wait for the scheduler to turn
// to the new policy.
const retireAfter = 5 * time.Second

// Host loads bundles, keeps them running and serves them to the scheduler, the
// node agent and the API.
type Host struct {
	deps Deps
	log  *slog.Logger

	counter atomic.Uint64 // of policy generations
	ready   chan struct{}
	poke    chan struct{} // state of a plugin changed

	replicaMu sync.Mutex
	replica   ReplicaSource

	// sourceMu guards the map alone; the sources are for ever.
	sourceMu sync.Mutex
	sources  map[string]*Source

	// mu guards the present configuration and its units.
	mu    sync.Mutex
	cfg   Config
	units []*unit
	// configured counts configurations; controlled is the last of them whose
	// controllers run, and no others. settled is closed when that changes.
	configured, controlled uint64
	settled                chan struct{}
	ctx                    context.Context // of Run; nil before
	group                  sync.WaitGroup
	retire                 sync.WaitGroup
}

// New checks the configuration against the catalog: bundles, their manifests,
// modules' and executables' presence, and that profiles and controllers name
// what there is. It starts nothing.
func New(cfg Config, deps Deps) (*Host, error) {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	h := &Host{
		deps: deps, log: deps.Log, sources: map[string]*Source{},
		ready: make(chan struct{}), poke: make(chan struct{}, 1), settled: make(chan struct{}),
	}
	cfg.defaults()
	units, err := h.resolve(&cfg, nil)
	if err != nil {
		return nil, err
	}
	h.cfg, h.units = cfg, units
	for _, p := range cfg.Profiles {
		h.Source(p.SchedulerName)
	}
	return h, nil
}

// SetReplicaSource tells the host where whole replicas come from. Without one,
// a bundle that missed a delta waits for one with reset set.
func (h *Host) SetReplicaSource(s ReplicaSource) {
	h.replicaMu.Lock()
	defer h.replicaMu.Unlock()
	h.replica = s
}

func (h *Host) source() ReplicaSource {
	h.replicaMu.Lock()
	defer h.replicaMu.Unlock()
	return h.replica
}

// Source hands out the policy of the profile for a schedulerName. It may be
// asked at any time; the policy appears when the bundles have started.
func (h *Host) Source(schedulerName string) *Source {
	h.sourceMu.Lock()
	defer h.sourceMu.Unlock()
	s := h.sources[schedulerName]
	if s == nil {
		s = &Source{changed: make(chan struct{}, 1)}
		h.sources[schedulerName] = s
	}
	return s
}

// Ready is closed when every bundle has started once.
func (h *Host) Ready() <-chan struct{} { return h.ready }

// Run starts the bundles and keeps them running until ctx ends; it returns
// when all have stopped. A bundle that cannot be started at all (a wrong
// digest, a manifest that promises too much) ends it with that error.
func (h *Host) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer h.group.Wait()
	defer h.retire.Wait()
	defer cancel()
	h.mu.Lock()
	if h.ctx != nil {
		h.mu.Unlock()
		return errors.New("plugin host: run was called twice")
	}
	h.ctx = ctx
	for _, u := range h.units {
		h.launch(ctx, u)
	}
	units := slices.Clone(h.units)
	h.mu.Unlock()
	defer h.stopAll()
	if err := settle(ctx, units); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	h.mu.Lock()
	err := h.switchProfiles(&h.cfg, h.units)
	h.mu.Unlock()
	if err != nil {
		return err
	}
	close(h.ready)
	h.publish(ctx)
	return nil
}

func (h *Host) stopAll() {
	h.mu.Lock()
	units := slices.Clone(h.units)
	h.mu.Unlock()
	// What was loaded last stops first; each has its own deadline.
	for _, u := range slices.Backward(units) {
		h.end(u)
	}
}

func (h *Host) launch(ctx context.Context, u *unit) {
	// A unit is ended by its own cancel, in order, not by the context of Run.
	unitCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	u.halt = cancel
	h.group.Go(func() { u.supervise(unitCtx) })
}

func (h *Host) end(u *unit) {
	if u.halt == nil {
		return
	}
	u.halt()
	<-u.ended
}

// settle waits for the first start of each unit and returns what makes it hopeless.
func settle(ctx context.Context, units []*unit) error {
	var faults []error
	for _, u := range units {
		select {
		case <-u.first:
		case <-ctx.Done():
			return ctx.Err()
		}
		u.stateMu.Lock()
		fault := u.fault
		u.stateMu.Unlock()
		faults = append(faults, fault)
	}
	return errors.Join(faults...)
}

// Reconfigure brings the host to a new configuration while scheduling runs:
// bundles that are new or changed are started, configured and fed before the
// profiles turn to them, which the scheduler does between two cycles; what is
// no longer named is stopped afterwards. On an error everything stays as it was.
func (h *Host) Reconfigure(cfg Config) error {
	cfg.defaults()
	h.mu.Lock()
	defer h.mu.Unlock()
	units, err := h.resolve(&cfg, h.units)
	if err != nil {
		return err
	}
	if h.ctx == nil {
		h.cfg, h.units = cfg, units
		return nil
	}
	var fresh, gone []*unit
	for _, u := range units {
		if !slices.Contains(h.units, u) {
			fresh = append(fresh, u)
		}
	}
	for _, u := range h.units {
		if !slices.Contains(units, u) {
			gone = append(gone, u)
		}
	}
	for _, u := range fresh {
		h.launch(h.ctx, u)
	}
	wait, cancel := context.WithTimeout(h.ctx, cfg.StartTimeout)
	defer cancel()
	if err = settle(wait, fresh); err == nil {
		err = h.switchProfiles(&cfg, units)
	}
	if err != nil {
		for _, u := range fresh {
			h.end(u)
		}
		return fmt.Errorf("plugins stay as they were: %w", err)
	}
	h.cfg, h.units = cfg, units
	h.configured++
	h.pokeState()
	// The scheduler may be in a cycle with the old policy.
	var waits []<-chan struct{}
	h.sourceMu.Lock()
	for _, s := range h.sources {
		if p := s.policy.Load(); p != nil {
			waits = append(waits, p.inUse)
		}
	}
	h.sourceMu.Unlock()
	ctx := h.ctx
	h.retire.Go(func() {
		limit := time.NewTimer(retireAfter)
		defer limit.Stop()
		if len(gone) > 0 {
			for _, inUse := range waits {
				select {
				case <-inUse:
				case <-limit.C:
					limit.Reset(0)
				case <-ctx.Done():
				}
			}
		}
		for _, u := range gone {
			h.end(u)
		}
	})
	return nil
}

// AwaitControllers waits until exactly the controllers of the last
// configuration run.
func (h *Host) AwaitControllers(ctx context.Context) error {
	h.mu.Lock()
	wanted := h.configured
	h.mu.Unlock()
	for {
		h.mu.Lock()
		done, settled := h.controlled >= wanted, h.settled
		h.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return fmt.Errorf("controllers of the last configuration: %w", context.Cause(ctx))
		}
	}
}

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
		call: or(m.Timeouts.Call, cfg.CallTimeout), start: or(m.Timeouts.Start, cfg.StartTimeout), stop: or(m.Timeouts.Stop, cfg.StopTimeout),
		memory: or(m.Limits.MemoryLimit(), cfg.MemoryLimit),
		log:    h.log.With("plugin", bc.Name), stats: map[string]*stats{}, changed: h.changed,
		source: h.source,
		kick:   make(chan struct{}, 1), hungry: make(chan struct{}, 1), first: make(chan struct{}), ended: make(chan struct{}),
		state: v1alpha1.PluginStatePending, since: time.Now(),
	}
	for _, e := range m.Plugins {
		u.stats[e.Name] = &stats{}
		scheduling := e.Kind == sdk.KindPredicate || e.Kind == sdk.KindPriority
		if kind == TransportWASM && !scheduling {
			return nil, fmt.Errorf("plugin bundle %s: %s %s needs the process transport", bc.Name, e.Kind, e.Name)
		}
	}
	return u, nil
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// same reports whether a unit may go on in the place of another.
func (u *unit) same(other *unit) bool {
	return u.bundle.Directory == other.bundle.Directory && u.bundle.Manifest.Version == other.bundle.Manifest.Version &&
		u.transport == other.transport && u.digest == other.digest && bytes.Equal(u.config.Config, other.config.Config) &&
		u.config.OnFailure == other.config.OnFailure && u.call == other.call && u.start == other.start && u.stop == other.stop && u.memory == other.memory
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
	return or(or(u.config.OnFailure, e.OnFailure), u.bundle.Manifest.OnFailure) == OnFailureIgnore
}

// switchProfiles builds all profiles' policies and then turns to them. mu is held.
func (h *Host) switchProfiles(cfg *Config, units []*unit) error {
	built := map[string]*Policy{}
	for _, profile := range cfg.Profiles {
		p, err := h.build(profile, units)
		if err != nil {
			return err
		}
		built[profile.SchedulerName] = p
	}
	h.sourceMu.Lock()
	defer h.sourceMu.Unlock()
	for name, s := range h.sources {
		if built[name] == nil {
			s.policy.Store(nil)
			s.signal()
		}
	}
	for name, p := range built {
		s := h.sources[name]
		if s == nil {
			s = &Source{changed: make(chan struct{}, 1)}
			h.sources[name] = s
		}
		s.policy.Store(p)
		s.signal()
	}
	return nil
}

func (h *Host) build(profile Profile, units []*unit) (*Policy, error) {
	p := &Policy{host: h, inUse: make(chan struct{})}
	h.touch(p)
	add := func(name, kind string) (*unit, *Entry, *contractv1.PluginDescription, error) {
		u, e := holder(units, name, kind)
		if u == nil {
			return nil, nil, nil, known(units, name, kind, "scheduler profile "+profile.SchedulerName)
		}
		if !slices.Contains(p.units, u) {
			p.units = append(p.units, u)
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if d := u.described[name]; d != nil {
			return u, e, d, nil
		}
		return nil, nil, nil, fmt.Errorf("plugin %s: %w", name, u.unavailable())
	}
	for _, name := range profile.Predicates {
		u, e, d, err := add(name, sdk.KindPredicate)
		if err != nil {
			return nil, err
		}
		p.filters = append(p.filters, place{u, name})
		p.predicates = append(p.predicates, contractv1.PredicateInfo{
			Name: name, Scope: or(d.GetScope(), string(sdk.ScopeNode)), Reads: reads(e, d), IgnoreFailure: u.ignores(e), Group: p.group(u),
		})
	}
	for _, w := range profile.Priorities {
		u, e, d, err := add(w.Name, sdk.KindPriority)
		if err != nil {
			return nil, err
		}
		p.scorers = append(p.scorers, place{u, w.Name})
		p.priorities = append(p.priorities, contractv1.PriorityInfo{
			Name: w.Name, Scope: or(d.GetScope(), string(sdk.ScopeNode)), Normalize: or(d.GetNormalize(), string(sdk.NormalizeNone)),
			Reads: reads(e, d), Weight: max(w.Weight, 1), IgnoreFailure: u.ignores(e), Group: p.group(u),
		})
	}
	return p, nil
}

// group is the number of a bundle whose plugins are better asked together.
func (p *Policy) group(u *unit) int {
	if u.transport != TransportProcess {
		return 0
	}
	return slices.Index(p.units, u) + 1
}

// reads joins what the manifest and the artefact declare.
func reads(e *Entry, d *contractv1.PluginDescription) []string {
	all := slices.Concat(e.Reads, d.GetReads())
	slices.Sort(all)
	return slices.Compact(all)
}

func (h *Host) touch(p *Policy) { p.generation.Store(h.counter.Add(1)) }

// changed voids every cached answer: a bundle went down or came back.
func (h *Host) changed() {
	h.sourceMu.Lock()
	for _, s := range h.sources {
		if p := s.policy.Load(); p != nil {
			h.touch(p)
		}
		s.signal()
	}
	h.sourceMu.Unlock()
	h.pokeState()
}

func (h *Host) pokeState() {
	select {
	case h.poke <- struct{}{}:
	default:
	}
}
