package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// retireAfter bounds how long replaced bundles wait for the scheduler to turn
// to the new policy.
const retireAfter = 5 * time.Second

// Host loads bundles, keeps them running and serves them to the scheduler, the
// node agent and the API.
type Host struct {
	deps Deps
	log  *slog.Logger

	counter  atomic.Uint64 // of policy generations
	groups   atomic.Uint64 // numbers cgroups of processes
	users    userTable
	launcher launcher
	ready    chan struct{}
	poke     chan struct{} // state of a plugin changed

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
	defer h.launcher.stop() // behind the last process that was started with it
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
