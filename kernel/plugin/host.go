package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/node/cgroup"
	"pintle.dev/pintle/kernel/plugin/apiservers"
	"pintle.dev/pintle/kernel/plugin/history"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/process"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Host loads bundles, keeps them running and serves them to the scheduler, the
// node agent and the API.
type Host struct {
	deps Deps
	log  *slog.Logger

	counter  atomic.Uint64 // of policy generations
	groups   atomic.Uint64 // numbers cgroups of processes
	users    process.UserTable
	scratch  process.Scratch
	servers  *apiservers.Registry
	journals journals
	exposer  exposer
	ready    chan struct{}
	// announced is closed when each plugin has its object.
	announced  chan struct{}
	announcing sync.Once
	// unwritten is signalled when Plugin objects may say less than what is.
	unwritten chan struct{}
	poke      chan struct{} // state of a plugin changed

	replicaMu sync.Mutex
	replica   ReplicaSource

	// sourceMu guards the map alone; the sources are for ever.
	sourceMu sync.Mutex
	sources  map[string]*Source

	// shadows gives the status of candidates, for Plugin objects.
	shadows atomic.Pointer[func(bundle string) *v1alpha1.PluginShadowStatus]

	// beside are units that are fed as those of the profiles are, and asked by
	// none of them: candidates.
	besideMu sync.Mutex
	beside   atomic.Pointer[[]*unit]

	// applyMu is held while the host turns to another plan: one at a time.
	applyMu sync.Mutex
	objects objects
	// trialMu is held while copies of units are tried (trial.go).
	trialMu sync.Mutex
	// told are the splits that were warned of; applyMu guards them.
	told []Split
	// opened are the names of plugins and bundles whose sockets are open; the
	// publishing goroutine's.
	opened map[string]bool

	// admissions are the enabled admission plugins; nil before the first start.
	admissions atomic.Pointer[[]*Admission]
	// unreviewed: no object that is stored asks for an admission plugin.
	unreviewed atomic.Bool

	// mu guards the plan in force.
	mu   sync.Mutex
	plan *plan
	// failed are the installed builds that could not be started.
	failed failures
	// former are the builds of installed bundles that ran when the last kernel ended,
	// where what is installed could not be started.
	former map[string][]v1alpha1.PluginVersion
	// retiring are units that were replaced and have not ended.
	retiring []*unit
	// previous is what of bundles was in force before.
	previous history.History
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
		ready: make(chan struct{}), announced: make(chan struct{}), unwritten: make(chan struct{}, 1), poke: make(chan struct{}, 1), settled: make(chan struct{}),
		previous: history.History{}, failed: failures{}, opened: map[string]bool{}, former: map[string][]v1alpha1.PluginVersion{},
	}
	h.objects.init()
	h.servers = apiservers.New(h.pokeState, clock.RealClock{})
	cfg.defaults()
	p, err := h.newPlan(&cfg, &wishes{}, &plan{})
	if err != nil {
		return nil, err
	}
	h.plan = p
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

// Ready is closed when every bundle that is in use has started once.
func (h *Host) Ready() <-chan struct{} { return h.ready }

// Announced is closed when each plugin that this host writes about has its object.
func (h *Host) Announced() <-chan struct{} { return h.announced }

// Run starts the bundles that are in use and keeps them running until ctx ends; it returns
// when all have stopped. The bundles of the configuration file start at once;
// before anything is asked of them, what Plugin objects say of them is in force.
// A bundle that cannot be started at all (a wrong digest, a manifest that
// promises too much) ends it with that error, unless only an object asks for it.
func (h *Host) Run(ctx context.Context) error {
	defer h.users.Machine.Release() // behind the last process
	defer h.scratch.Remove()
	ctx, cancel := context.WithCancel(ctx)
	defer h.group.Wait()
	defer h.servers.Close()
	defer h.retire.Wait()
	defer cancel()
	h.applyMu.Lock()
	h.mu.Lock()
	if h.ctx != nil {
		h.mu.Unlock()
		h.applyMu.Unlock()
		return errors.New("plugin host: run was called twice")
	}
	h.ctx = ctx
	if h.plan.base.Cgroup != "" {
		if err := cgroup.Sweep(h.plan.base.Cgroup); err != nil {
			h.log.Warn("cgroups of a kernel that was killed are not removed", "error", err)
		}
	}
	h.mu.Unlock()
	defer h.stopAll()
	api, err := h.begin(ctx)
	h.applyMu.Unlock()
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	close(h.ready)
	if api == nil {
		h.announcing.Do(func() { close(h.announced) })
	} else {
		// Before somebody follows the objects, who would take them for somebody's.
		h.announce(ctx, api)
		h.group.Go(func() { h.follow(ctx, api) })
		h.group.Go(func() { h.write(ctx, api) })
	}
	h.publish(ctx, api)
	return nil
}

// begin starts the active units and hands out the first policies. applyMu is held.
func (h *Host) begin(ctx context.Context) (api *publisher, err error) {
	h.mu.Lock()
	p := h.plan
	h.mu.Unlock()
	for _, u := range p.units {
		if u.active {
			h.launch(ctx, u)
		}
	}
	if h.deps.REST != nil {
		if api, err = newPublisher(h.deps.REST, h.servesGroup); err != nil {
			return nil, fmt.Errorf("plugin host: %w", err)
		}
		if err := h.adopt(ctx, api); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	p = h.plan
	h.mu.Unlock()
	if err := settle(ctx, p.units); err != nil {
		if p, err = h.withoutFailed(ctx, p, err); err != nil {
			return nil, err
		}
	}
	policies, err := h.policies(p, nil)
	if err != nil {
		return nil, err
	}
	reviews, err := h.newAdmissions(p)
	if err != nil {
		return nil, err
	}
	h.turn(policies)
	h.admissions.Store(&reviews)
	h.tellSplits(p)
	return api, nil
}

func (h *Host) stopAll() {
	h.mu.Lock()
	units := slices.Clone(h.plan.units)
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

// settle waits for the first start of each active unit and returns what makes it hopeless.
func settle(ctx context.Context, units []*unit) error {
	var faults []error
	for _, u := range units {
		if !u.active {
			continue
		}
		select {
		case <-u.first:
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return ctx.Err()
			}
			faults = append(faults, u.late())
			continue
		}
		faults = append(faults, u.hopeless())
	}
	return errors.Join(faults...)
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

// KillControllers ends the guests of controllers that do not end by themselves; they
// are started again and told what they shall run.
func (h *Host) KillControllers() {
	h.mu.Lock()
	units := slices.Concat(h.plan.units, h.retiring)
	h.mu.Unlock()
	for _, u := range units {
		if !slices.ContainsFunc(u.bundle.Manifest.Plugins, func(e manifest.Entry) bool { return sdk.ControllingKind(e.Kind) }) {
			continue
		}
		u.mu.Lock()
		if u.guest != nil {
			u.broke(errors.New("its controllers did not end in time"))
		}
		u.mu.Unlock()
	}
}

// APIServers are those of plugins that run here.
func (h *Host) APIServers() *apiservers.Registry { return h.servers }

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

// present is the plan in force.
func (h *Host) present() *plan {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.plan
}

// PluginConfig is the configuration in force of a plugin, or nil.
func (h *Host) PluginConfig(name string) []byte { return h.present().config(name) }

func (h *Host) pokeState() {
	select {
	case h.poke <- struct{}{}:
	default:
	}
}
