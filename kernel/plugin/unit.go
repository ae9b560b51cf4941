package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pintle.dev/pintle/kernel/plugin/apiservers"
	"pintle.dev/pintle/kernel/plugin/confinement"
	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/plugin/output"
	"pintle.dev/pintle/kernel/plugin/process"
	"pintle.dev/pintle/kernel/plugin/wasm"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/controller"
)

const (
	// firstAttempts is how often a bundle that never ran is tried before the
	// start of the kernel fails by it.
	firstAttempts = 3
	// exitPoll is how often a process is looked after; pingEvery how many
	// such looks lie between two questions for its health.
	exitPoll  = 100 * time.Millisecond
	pingEvery = 50
	// pingTimeout is how long a process may take to say that it is well.
	pingTimeout = 5 * time.Second
)

// unit is a bundle that shall run: its guest, and the supervisor that starts
// it, replaces it when it breaks and ends it.
type unit struct {
	bundle *manifest.Bundle
	config BundleConfig
	// active: one of its plugins is in use. Without one nothing of it runs.
	active bool
	// ungranted is what its manifest asks for and the operator has to grant,
	// before it is in use.
	ungranted error
	transport string
	artifact  *manifest.Artifact
	digest    string
	modules   *modulecache.Cache
	worker    bool // the module runs in a process apart
	run       string
	call      time.Duration
	start     time.Duration
	stop      time.Duration
	limits    process.Ceilings
	files     []string            // folders that the module may read
	confined  process.Constraints // of a process
	log       *slog.Logger
	budget    *output.Budget
	words     *slog.Logger // for what the bundle itself writes
	changed   func()       // an answer may be another now
	poke      func()       // its state changed
	stats     map[string]*stats

	source func() ReplicaSource
	shadow func(bundle string) *v1alpha1.PluginShadowStatus

	// idle is how long API servers may be without a request before their process ends;
	// 0: it runs on. servers knows their requests, wake has a token where one wants it.
	idle    time.Duration
	servers *apiservers.Registry
	wake    chan struct{}
	rests   atomic.Bool // it ended for that, or is about to

	kick   chan struct{} // the guest broke
	hungry chan struct{} // the guest is to catch up
	first  chan struct{} // closed after the first start, good or hopeless
	ended  chan struct{} // closed when the supervisor has returned
	halt   context.CancelFunc

	// mu is held over each call: a guest takes one at a time.
	mu    sync.Mutex
	guest guest.Guest
	// revision counts changes of config, adopted is the one that the guest has.
	revision, adopted uint64
	index             map[string]int
	// sent is the generation of the guest's replica, fed that of the replica
	// with what is queued for it, wanted that of the last delta there was.
	sent, fed, wanted uint64
	queue             []guest.Part
	queued            int // operations in queue
	// catching is not nil while the supervisor feeds the guest, which nobody
	// else may call then; it is closed when that is done. whole: it begins with
	// the whole replica. patience: so long may the cycle wait. missed: somebody
	// asked in vain.
	catching      chan struct{}
	lending       // of a question that is late (late.go)
	whole, missed bool
	patience      time.Time
	answered      contractv1.Code // what the question under way was answered, in all
	brief         bool            // the question under way is one of which few are timed
	apart         time.Time       // until then a module is asked one question at a time
	failed        bool            // a guest broke
	// described is what the guest said of its plugins; it outlives the guest.
	described map[string]*contractv1.PluginDescription
	// blind: none of its plugins looks at the replica, so that it gets none.
	blind bool
	// podless: none of its plugins looks at the pods on nodes, so that it gets none.
	podless bool
	started uint64 // counts guests
	// warnedOf is the guest whose memory was warned of.
	warnedOf uint64

	// state is read by others while a call runs.
	stateMu  sync.Mutex
	state    v1alpha1.PluginState
	message  string
	since    time.Time
	restarts int32
	pid      int
	without  []confinement.Wall // that the process which was ready last lacks
	fault    error              // why it cannot be started
	memory   int64
	denials  map[string]denial // by name
	sockets  map[string]string // of plugins that use the API while they bind
	// controllers is what the process last said of them.
	controllers []controller.State
	provided    []v1alpha1.ProvidedPlugin // the plugins of the bundle

	// serving says of API servers why they do not serve; no entry: they do, or are not
	// in use.
	serving map[string]string

	// controlled and controls belong to the publishing goroutine: which guest
	// was told to run which controllers.
	controlled       uint64
	controlledConfig uint64 // and with which configuration
	controls         []string
}

func (u *unit) set(state v1alpha1.PluginState, message string) {
	u.stateMu.Lock()
	defer u.stateMu.Unlock()
	if u.state != state {
		u.since = time.Now()
	}
	u.state, u.message = state, message
}

// setWithout keeps which walls the process that runs is without.
func (u *unit) setWithout(walls []confinement.Wall) {
	u.stateMu.Lock()
	defer u.stateMu.Unlock()
	u.without = walls
}

func (u *unit) setPID(pid int) {
	u.stateMu.Lock()
	defer u.stateMu.Unlock()
	u.pid = pid
}

// supervise keeps a guest running until ctx ends, then stops it in order.
func (u *unit) supervise(ctx context.Context) {
	defer close(u.ended)
	defer func() {
		for _, s := range u.stats {
			s.circuit.close()
		}
	}()
	var m *wasm.Module
	defer func() {
		if m != nil {
			m.Close(context.WithoutCancel(ctx))
		}
	}()
	backoff, firstTime, attempts := guest.FirstBackoff, true, 0
	var lastFailure error
	for ctx.Err() == nil {
		u.set(v1alpha1.PluginStateStarting, "")
		began := time.Now()
		g, err := u.launch(ctx, &m)
		if err == nil {
			u.setPID(g.PID())
			err = u.begin(ctx, g)
		}
		if u.rests.Swap(false) && err != nil {
			u.changed() // requests wait for it
		}
		if err == nil {
			u.setWithout(lacks(g))
			u.set(v1alpha1.PluginStateReady, readiness(g, lastFailure))
			u.log.Info("plugin bundle is ready", "transport", u.transport, "version", u.bundle.Manifest.Version, "took", time.Since(began).Round(time.Millisecond).String())
			if firstTime {
				firstTime = false
				close(u.first)
			}
			u.changed()
			err = u.watch(ctx, g)
		}
		if errors.Is(err, errUnused) {
			u.lie(ctx, g)
			backoff, lastFailure = guest.FirstBackoff, nil
			continue
		}
		if g != nil {
			if k, ok := g.(guest.Killer); ok && ctx.Err() == nil {
				// A call that waits for a process that hangs holds mu; it fails
				// when the process is gone.
				k.Kill(0)
			}
			u.mu.Lock()
			u.down()
			u.returned()
			u.changed()
			if ctx.Err() != nil {
				u.set(v1alpha1.PluginStateStopping, "")
				if err := g.Close(context.WithoutCancel(ctx), u.stop); err != nil {
					u.log.Warn("plugin bundle did not stop in order and was killed", "error", err)
				}
				break
			}
			g.Close(context.WithoutCancel(ctx), 0)
		}
		if ctx.Err() != nil {
			break
		}
		if attempts++; firstTime && attempts >= firstAttempts {
			err = fmt.Errorf("%w: tried %d times: %w", guest.ErrPermanent, attempts, err)
		}
		if errors.Is(err, guest.ErrPermanent) {
			u.giveUp(err)
			if firstTime {
				close(u.first) // whoever waits for it has the fault
			} else {
				u.log.Error("plugin bundle cannot be started", "error", err)
			}
			<-ctx.Done()
			break
		}
		if time.Since(began) > guest.SettledAfter {
			backoff = guest.FirstBackoff
		}
		lastFailure = err
		u.set(v1alpha1.PluginStateBackOff, err.Error())
		level := slog.LevelError
		if firstTime {
			level = slog.LevelDebug // the last attempt's error is told by who waits for it
		}
		u.log.Log(ctx, level, "plugin bundle failed and is started again", "error", err, "after", backoff.String())
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, guest.LastBackoff)
		u.stateMu.Lock()
		u.restarts++
		u.stateMu.Unlock()
	}
	u.set(v1alpha1.PluginStateDisabled, "stopped")
}

// giveUp notes that another start would meet the same.
func (u *unit) giveUp(err error) {
	u.stateMu.Lock()
	u.fault = err
	u.stateMu.Unlock()
	u.set(v1alpha1.PluginStateFailed, err.Error())
}

// readiness is what there is to say of a guest that is ready.
func readiness(g guest.Guest, lastFailure error) string {
	message := ""
	if lastFailure != nil {
		message = "started again after: " + lastFailure.Error()
	}
	if words := waiver(lacks(g)); words != "" {
		message = strings.TrimPrefix(message+"; "+words, "; ")
	}
	return message
}

// lacks are the walls that a guest runs without.
func lacks(g guest.Guest) []confinement.Wall {
	if w, ok := g.(guest.Walled); ok {
		return w.Lacks()
	}
	return nil
}

// waiver says which walls a process runs without; "" is none.
func waiver(walls []confinement.Wall) string {
	if len(walls) == 0 {
		return ""
	}
	return "runs without " + confinement.Join(walls) + ", which plugins.runWithout waives"
}

// launch starts a guest and configures it.
func (u *unit) launch(ctx context.Context, m **wasm.Module) (g guest.Guest, err error) {
	select {
	case <-u.kick: // about the guest before
	default:
	}
	if u.transport == manifest.TransportWASM {
		if *m != nil && (*m).Lost() != nil {
			if err := (*m).Close(ctx); err != nil {
				u.log.Warn("worker of a module left something behind", "error", err)
			}
			*m = nil
		}
		if *m == nil {
			if *m, err = u.loadModule(ctx); err != nil {
				return nil, err
			}
		}
		w, err := (*m).Instantiate(u.call, u.start, u.words)
		if err != nil {
			return nil, err
		}
		w.Serve(wasm.Settings{Call: u.call, Start: u.start, Reconcile: u.bundle.Manifest.Timeouts.Reconcile, Log: u.log, Words: u.words, Owner: moduleOwner{u}})
		g = w
	} else {
		p, err := process.Start(ctx, u.bundle, u.artifact, process.Options{
			Digest: u.digest, RunDirectory: u.run, Call: u.call, Start: u.start, Asked: u.scheduling(),
			Log: u.log, Words: u.words, Budget: u.budget, Constraints: u.confined,
		})
		if err != nil {
			return nil, err
		}
		g = p
	}
	if err := u.adopt(ctx, g); err != nil {
		g.Close(ctx, 0)
		return nil, err
	}
	return g, nil
}

// begin hands a guest over to those who ask; one that takes the place of
// another is brought up to date first, which nobody waits for.
func (u *unit) begin(ctx context.Context, g guest.Guest) error {
	u.mu.Lock()
	for u.adopted != u.revision {
		// It changed while the guest was started.
		u.mu.Unlock()
		if err := u.adopt(ctx, g); err != nil {
			return err
		}
		u.mu.Lock()
	}
	if h, ok := g.(guest.Held); ok {
		h.HeldBy(u)
	}
	u.guest, u.sent, u.fed = g, 0, 0
	u.started++
	if u.wanted > 0 && u.source() != nil {
		u.catchUpLater(true)
		u.patience = time.Time{}
	}
	u.mu.Unlock()
	return u.catchUp(ctx, g)
}

// adopt compares a guest with the manifest and hands out the configuration,
// a JSON object with a key a plugin.
func (u *unit) adopt(ctx context.Context, g guest.Guest) error {
	described := map[string]*contractv1.PluginDescription{}
	index := map[string]int{}
	for i, p := range g.Describe() {
		described[p.GetName()], index[p.GetName()] = p, i
	}
	if err := u.bundle.Manifest.Provides(g.Describe()); err != nil {
		return fmt.Errorf("plugin bundle %s: %w: %w", u.bundle.Manifest.Name, guest.ErrPermanent, err)
	}
	revision, err := u.configureAll(ctx, g, index)
	if err != nil {
		return err
	}
	u.mu.Lock()
	u.index, u.described, u.adopted = index, described, revision
	u.blind, u.podless = blind(described), podless(described)
	u.mu.Unlock()
	return nil
}

// watch returns when the guest broke or ctx ended.
func (u *unit) watch(ctx context.Context, g guest.Guest) error {
	var poll <-chan time.Time // never: a module in this process says itself when it broke
	p, pings := g.(guest.Pinger)
	if g.PID() > 0 {
		tick := time.NewTicker(exitPoll)
		defer tick.Stop()
		poll = tick.C
	}
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-u.kick:
			return u.why()
		case <-u.hungry:
			if err := u.catchUp(ctx, g); err != nil {
				return err
			}
			continue
		case <-poll:
		}
		if err := g.Health(ctx); err != nil {
			return err
		}
		if pings && n%pingEvery == 0 {
			pingCtx, cancel := context.WithTimeout(ctx, pingTimeout)
			err := p.Ping(pingCtx)
			cancel()
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
		if u.idle > 0 && n%restEvery == 0 && u.unused() {
			return errUnused
		}
	}
}

func (u *unit) why() error {
	u.stateMu.Lock()
	defer u.stateMu.Unlock()
	return errors.New(u.message)
}

// broke takes the guest out of service; mu is held.
func (u *unit) broke(err error) {
	u.failed = true
	u.down()
	u.set(v1alpha1.PluginStateBackOff, err.Error())
	select {
	case u.kick <- struct{}{}:
	default:
	}
	u.changed()
}

// down leaves the unit without a guest; mu is held.
func (u *unit) down() {
	u.guest, u.queue, u.queued, u.sent, u.fed = nil, nil, 0, 0, 0
	u.caughtUp()
}

func (u *unit) unavailable() error {
	return guest.Unavailable(u.bundle.Manifest.Name)
}

// path is the absolute folder of the bundle.
func (u *unit) path() string {
	if abs, err := filepath.Abs(u.bundle.Directory); err == nil {
		return abs
	}
	return u.bundle.Directory
}

// scheduling reports whether the bundle has a plugin that the scheduler asks.
func (u *unit) scheduling() bool {
	return slices.ContainsFunc(u.bundle.Manifest.Plugins, func(e manifest.Entry) bool { return sdk.SchedulingKind(e.Kind) })
}
