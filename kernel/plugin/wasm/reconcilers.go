package wasm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/reconciler/loop"
	"pintle.dev/pintle/sdk/reconciler/protocol"
)

// reconcileTimeout is the deadline of one reconciliation, the API's part
// included, where the manifest says nothing.
const reconcileTimeout = 30 * time.Second

// brokenBackoff is the least time before a key that broke an instance is tried
// with the next one.
const brokenBackoff = time.Second

// watches are what a controller of a module asks its host to watch.
type watches struct {
	For  string
	Owns []string
}

// reconcilers run the controllers of a module, each in an instance of its own:
// one that waits for the API holds up no other plugin of the bundle.
type reconcilers struct {
	from *Guest // knows what the module describes

	mu      sync.Mutex
	running map[string]*reconciling
	closed  bool
}

// reconciling is one controller that shall run.
type reconciling struct {
	socket string
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	state controller.State
}

func newReconcilers(g *Guest) *reconcilers {
	return &reconcilers{from: g, running: map[string]*reconciling{}}
}

// RunControllers makes exactly the given controllers run. The host runs them: they need no
// socket that they share.
func (g *Guest) RunControllers(ctx context.Context, _ func() (string, error), _ string, list []controller.Spec) error {
	return g.controllers.set(ctx, list)
}

func (g *Guest) ControllerStates(context.Context) ([]controller.State, error) {
	return g.controllers.states(), nil
}

// set makes exactly the given controllers run.
func (r *reconcilers) set(ctx context.Context, specs []controller.Spec) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	var leave []*reconciling
	for name, run := range r.running {
		if !slices.ContainsFunc(specs, func(s controller.Spec) bool { return s.Name == name && s.Socket == run.socket }) {
			run.cancel()
			leave = append(leave, run)
			delete(r.running, name)
		}
	}
	for _, run := range leave {
		select {
		case <-run.done:
		case <-ctx.Done():
			return fmt.Errorf("plugin bundle %s: a controller did not end: %w", r.from.name, ctx.Err())
		}
	}
	for _, s := range specs {
		if r.running[s.Name] == nil {
			r.running[s.Name] = r.begin(s)
		}
	}
	return nil
}

// close ends all and waits: the module is unmapped next.
func (r *reconcilers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, run := range r.running {
		run.cancel()
	}
	for _, run := range r.running {
		<-run.done
	}
	clear(r.running)
}

func (r *reconcilers) states() []controller.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	var states []controller.State
	for _, run := range r.running {
		run.mu.Lock()
		states = append(states, run.state)
		run.mu.Unlock()
	}
	slices.SortFunc(states, func(a, b controller.State) int { return cmp.Compare(a.Name, b.Name) })
	return states
}

// begin runs a controller in a goroutine of its own until it is ended; what
// breaks is replaced with back-off.
func (r *reconcilers) begin(spec controller.Spec) *reconciling {
	ctx, cancel := context.WithCancel(context.Background())
	run := &reconciling{socket: spec.Socket, cancel: cancel, done: make(chan struct{}), state: controller.State{Name: spec.Name, Message: "starting"}}
	log := r.from.settings.Log.With("controller", spec.Name)
	go func() {
		defer close(run.done)
		backoff, bounds := guest.FirstBackoff, r.from.settings.Owner.Bounded(spec.Name)
		for {
			began := time.Now()
			err := r.once(ctx, spec, run, bounds, log)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				err = errors.New("it ended")
			}
			if time.Since(began) > guest.SettledAfter {
				backoff = guest.FirstBackoff
			}
			log.Error("controller broke and is started again", "error", err, "after", backoff.String())
			run.set(false, err.Error(), 1)
			r.from.settings.Owner.Poke()
			select {
			case <-ctx.Done():
				return
			case <-time.After(backoff):
			}
			backoff = min(2*backoff, guest.LastBackoff)
		}
	}()
	return run
}

func (run *reconciling) set(up bool, message string, restarts uint64) {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.state.Running, run.state.Message = up, message
	run.state.Restarts += restarts
}

// once makes an instance and reconciles with it until it breaks or ctx ends.
func (r *reconcilers) once(ctx context.Context, spec controller.Spec, run *reconciling, bounds func(Operator) Operator, log *slog.Logger) error {
	name, own := spec.Name, &r.from.settings
	i := slices.IndexFunc(r.from.plugins, func(p *contractv1.PluginDescription) bool { return p.GetName() == name })
	if i < 0 {
		return fmt.Errorf("the module has no controller %s", name)
	}
	what, owns, err := r.from.watches[i].parse()
	if err != nil {
		return fmt.Errorf("controller %s: %w", name, err)
	}
	words := own.Words.With("controller", name)
	g, err := r.from.further(words)
	if err != nil {
		return err
	}
	// Its memory is gone with it, whatever close says.
	defer func() { _ = g.Close(context.WithoutCancel(ctx), 0) }()
	rest := controller.ConfigFor(spec.Socket, "pintle-controller/"+name)
	// One transport for all its clients, whose idle connections end with it.
	connections := &http.Transport{DialContext: rest.Dial, DisableCompression: rest.DisableCompression}
	defer connections.CloseIdleConnections()
	rest.Transport, rest.Dial = connections, nil
	operations, err := loop.NewOperations(name, rest, words)
	if err != nil {
		return err
	}
	defer operations.Close()
	operate := bounds(operations.Operate)
	timeout := cmp.Or(own.Reconcile, reconcileTimeout)
	l, err := loop.New(loop.Config{
		Name: name, For: what, Owns: owns, REST: rest, Log: log,
		Trouble: func(err error) {
			if err != nil {
				run.set(false, err.Error(), 0)
			} else {
				run.set(true, "", 0)
			}
			r.from.settings.Owner.Poke()
		},
		Reconcile: func(ctx context.Context, key protocol.Key) (loop.Result, error) {
			data, err := json.Marshal(key)
			if err != nil {
				return loop.Result{}, err
			}
			if g, err = r.from.current(g, words); err != nil {
				return loop.Result{}, fmt.Errorf("%w: %w", loop.ErrFatal, err)
			}
			began := time.Now()
			after, err := g.reconcile(ctx, i, data, timeout, operate)
			if ctx.Err() != nil {
				// The kernel stops; what the module made of that is no fault of it.
				return loop.Result{}, ctx.Err()
			}
			own.Owner.Count(name, time.Since(began), err)
			switch {
			case errors.Is(err, guest.ErrPermanent):
				err = fmt.Errorf("%w: %s: %w", loop.ErrFatal, key, err)
			case errors.Is(err, guest.ErrBroken):
				// The key is to blame, and waits longer each time; the others go
				// on with a fresh instance.
				log.Error("controller broke and has a fresh instance", "key", key.String(), "error", err)
				run.set(true, fmt.Sprintf("started again after %s: %v", key, err), 1)
				r.from.settings.Owner.Poke()
				fresh, failure := r.from.further(words)
				if failure != nil {
					return loop.Result{}, fmt.Errorf("%w: %w", loop.ErrFatal, failure)
				}
				_ = g.Close(context.WithoutCancel(ctx), 0)
				g = fresh
				// An instance is dear, and what broke this one may have taken all
				// the time that it had: the key does not come back at once.
				after = brokenBackoff
			}
			return loop.Result{RequeueAfter: after}, err
		},
	})
	if err != nil {
		return err
	}
	run.set(true, "", 0)
	r.from.settings.Owner.Poke()
	return l.Run(ctx)
}

func (w watches) parse() (what protocol.Resource, owns []protocol.Resource, err error) {
	if what, err = protocol.ParseResource(w.For); err != nil {
		return what, nil, fmt.Errorf("for: %w", err)
	}
	for _, o := range w.Owns {
		r, err := protocol.ParseResource(o)
		if err != nil {
			return what, nil, fmt.Errorf("owns: %w", err)
		}
		owns = append(owns, r)
	}
	return what, owns, nil
}
