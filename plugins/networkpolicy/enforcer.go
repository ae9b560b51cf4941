package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"pintle.dev/pintle/plugins/networkpolicy/program"
	"pintle.dev/pintle/plugins/networkpolicy/table"
	"pintle.dev/pintle/plugins/proxies/sysctl"
	"pintle.dev/pintle/sdk/proxy"
)

const (
	// settle is how long changes gather: a rollout is many.
	settle = 10 * time.Millisecond
	// again is the pause after a failure.
	again = time.Second
	// patience bounds how long a start waits for the policies. Then the node is closed. The
	// kernel gives a start 30s in all.
	patience = 5 * time.Second
	// startLimit bounds a start that cannot close the node either.
	startLimit = 20 * time.Second
)

// filter is the packet filter of the machine: a table.Table, but for tests.
type filter interface {
	Exists() (bool, error)
	Disturbed() (bool, error)
	Apply(next *program.Program) error
	Remove() error
	Close() error
}

// Enforcer implements proxy.Proxy.
type Enforcer struct {
	open func() (filter, error)
	proc string // the kernel's switches

	mu       sync.Mutex
	running  *run
	state    proxy.Status
	switches error // of the kernel's switches, whatever the filter's state is
}

var _ proxy.Proxy = (*Enforcer)(nil)

// run is from a start to a stop.
type run struct {
	*Enforcer
	cfg     Config
	log     *slog.Logger
	ranges  []netip.Prefix
	bridges sysctl.Bridges
	filter  filter
	source  *source
	cluster func(ctx context.Context) (*program.Cluster, bool)
	links   func() ([]string, error) // the pods' bridges
	due     func() bool              // policies are to be read again
	compile *program.Compiler
	flows   flows
	tell    func([]program.Beyond)
	helpers sync.WaitGroup   // end with the context
	names   []string         // what links said last
	shut    *program.Program // what closes the node, as long as it does
	late    bool             // patience has ended
	wake    chan struct{}
	first   chan struct{} // closed when policies are enforced, or the node is closed
	once    sync.Once
	cancel  context.CancelFunc
	done    chan struct{}
}

// New returns an enforcer that is not started.
func New() *Enforcer {
	return &Enforcer{proc: "/proc/sys", open: func() (filter, error) { return table.Open() }}
}

// Probe implements proxy.Proxy.
func (e *Enforcer) Probe(_ context.Context, config []byte) error {
	if _, err := parseConfig(config); err != nil {
		return err
	}
	if err := (sysctl.Bridges{Proc: e.proc}).Available(); err != nil {
		return err
	}
	f, err := e.open()
	if err != nil {
		return err
	}
	return f.Close()
}

// Start implements proxy.Proxy. It returns when the policies are enforced. Where they
// cannot be read in time the pods of this node are closed until they can.
func (e *Enforcer) Start(ctx context.Context, o proxy.Options) error {
	if o.APISocket == "" {
		return errors.New("start " + Name + ": it has no way to the API; its rules in the manifest were not granted")
	}
	core, networking, err := clients(o.APISocket)
	if err != nil {
		return fmt.Errorf("start %s: %w", Name, err)
	}
	r, err := e.prepare(o)
	if err != nil {
		return fmt.Errorf("start %s: %w", Name, err)
	}
	loop, cancel := context.WithCancel(ctx)
	r.source = newSource(loop, o.NodeName, r.ranges, r.cfg.NamespaceBudget.Bytes, core, networking, r.poke)
	r.cluster, r.due = r.source.cluster, r.source.due
	t := newTeller(core, o.NodeName, r.cfg.NamespaceBudget, o.Logger)
	r.tell = t.tell
	r.helpers.Go(func() { t.run(loop) })
	e.begin(loop, cancel, r)
	return e.await(ctx, r)
}

// await waits until policies are enforced or the node is closed. A start that comes to
// neither ends, so that the next one begins anew.
func (e *Enforcer) await(ctx context.Context, r *run) error {
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case <-r.first:
		return nil
	case <-ctx.Done():
		return nil
	case <-limit.C:
	}
	message := e.Status().Message
	return errors.Join(fmt.Errorf("start %s: pods of this node are not closed, and policies are not enforced: %s", Name, message), e.Stop(ctx, false))
}

// prepare checks the options, and that the machine has what is needed.
func (e *Enforcer) prepare(o proxy.Options) (*run, error) {
	cfg, err := parseConfig(o.Config)
	if err != nil {
		return nil, err
	}
	r := &run{
		Enforcer: e, compile: program.NewCompiler(cfg.NamespaceBudget.program()), flows: newFlows(),
		due: func() bool { return false }, tell: func([]program.Beyond) {}, cfg: cfg, log: o.Logger, bridges: sysctl.Bridges{Proc: e.proc, StateDirectory: o.StateDirectory}, wake: make(chan struct{}, 1), first: make(chan struct{}), done: make(chan struct{}),
	}
	if r.ranges, err = prefixes(o.PodCIDRs); err != nil {
		return nil, err
	}
	if r.flows.ranges, err = prefixes(o.ClusterCIDRs); err != nil {
		return nil, err
	}
	r.links = func() ([]string, error) { return podBridges(r.ranges) }
	if err := r.bridges.Available(); err != nil {
		return nil, err
	}
	if err := r.bridges.On(); err != nil {
		return nil, err
	}
	if r.filter, err = e.open(); err != nil {
		return nil, err
	}
	return r, nil
}

func prefixes(texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("range of pods %q: %w", text, err)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

func (e *Enforcer) begin(ctx context.Context, cancel context.CancelFunc, r *run) {
	r.cancel = cancel
	e.mu.Lock()
	e.running, e.state, e.switches = r, proxy.Status{Message: "policies are not read yet"}, nil
	e.mu.Unlock()
	go r.loop(ctx)
}

// poke says that something changed.
func (r *run) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// loop enforces what is known, whenever that changes or somebody else changed rules.
func (r *run) loop(ctx context.Context) {
	defer close(r.done)
	tick := time.NewTicker(r.cfg.check)
	defer tick.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	var last *program.Program
	for {
		select {
		case <-ctx.Done():
			return
		case <-late.C:
			if r.late = true; last == nil {
				if err := r.close(); err != nil {
					r.failed(err)
					late.Reset(again)
				}
			}
			continue
		case <-tick.C:
			if err := r.check(last); err != nil {
				r.failed(err)
				r.poke()
			}
			if r.due() || r.flows.pending() {
				r.poke()
			}
			continue
		case <-r.wake:
		}
		if !pause(ctx, settle) {
			return
		}
		begun := time.Now()
		cluster, known := r.cluster(ctx)
		if !known {
			continue // each first list pokes
		}
		r.look()
		cluster.Bridges = r.names
		next := r.compile.Compile(cluster)
		if err := r.apply(next); err != nil {
			r.failed(err)
			r.poke()
			if !pause(ctx, max(time.Since(begun), again)) {
				return
			}
			continue
		}
		last, r.shut = next, nil
		r.enforced(next, len(cluster.Policies))
		r.tell(next.Beyond)
		r.follow(cluster)
		// As long as the change took, so that labels that flap cost half a CPU at most.
		if !pause(ctx, time.Since(begun)) {
			return
		}
	}
}

// pause waits, and says whether the run goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// apply gives the filter a program; after a fault by a new connection, since answers on the
// old one may be those of other questions.
func (r *run) apply(next *program.Program) error {
	err := r.filter.Apply(next)
	if err == nil {
		return nil
	}
	fresh, again := r.open()
	if again != nil {
		return errors.Join(err, again)
	}
	_ = r.filter.Close() // it failed before
	r.filter = fresh
	return err
}

// check puts right what others changed: switches of bridges, and rules. An empty program is
// put right too: another's table of this name is none of a policy. Where nothing was read
// yet it is what closes the node.
func (r *run) check(last *program.Program) error {
	r.switched(r.bridges.On())
	others := r.look()
	if last == nil {
		return r.keepClosed(others)
	}
	if others {
		r.poke()
	}
	return r.heal(last)
}

// keepClosed checks a node of which nothing was read yet.
func (r *run) keepClosed(others bool) error {
	switch {
	case !r.late:
		return nil
	case r.shut == nil:
		return r.close() // a table of an earlier run may be gone
	case others:
		return r.shutNow()
	}
	return r.heal(r.shut)
}

func (r *run) heal(want *program.Program) error {
	disturbed, err := r.filter.Disturbed()
	if err != nil || !disturbed || want.Empty() {
		return err
	}
	return r.apply(want)
}

// look finds the bridges of pods, and says whether they are others than before. The first
// pod of a node makes one.
func (r *run) look() bool {
	names, err := r.links()
	if err != nil {
		r.log.Warn("the bridges of pods are not known", "error", err)
		return false
	}
	if slices.Equal(names, r.names) {
		return false
	}
	r.names = names
	return true
}

// close lets a start end though the policies could not be read: pods of this node get no
// connection until they can. A table of an earlier run stays as it is.
func (r *run) close() error {
	exists, err := r.filter.Exists()
	if err != nil {
		return err
	}
	if !exists {
		r.look()
		return r.shutNow()
	}
	r.once.Do(func() { close(r.first) })
	return nil
}

func (r *run) shutNow() error {
	next := program.Closed(r.ranges, r.names)
	if err := r.apply(next); err != nil {
		return err
	}
	if r.shut == nil {
		r.log.Warn("the policies could not be read yet; pods of this node get no new connections until they are", "after", patience)
	}
	r.shut = next
	r.once.Do(func() { close(r.first) })
	return nil
}

// switched keeps a fault of the kernel's switches, which no change of rules ends.
func (r *run) switched(err error) {
	r.mu.Lock()
	before := r.switches
	r.switches = err
	r.mu.Unlock()
	if err != nil && (before == nil || before.Error() != err.Error()) {
		r.log.Error("packets between pods of one bridge may pass unseen", "error", err)
	}
}

func (r *run) failed(err error) {
	r.mu.Lock()
	said := r.state.Message
	r.state.Ready, r.state.Message = false, err.Error()
	r.mu.Unlock()
	if said != err.Error() {
		r.log.Error("network policies are not enforced as they are now; those enforced before still are", "error", err)
	}
}

// follow forgets flows of pods that are gone. Where that fails it is tried again with the next
// look at the machine.
func (r *run) follow(c *program.Cluster) {
	if err := r.flows.follow(c); err != nil {
		r.log.Warn("connections of pods that are gone may go on with pods that get their addresses; it is tried again", "error", err)
	}
}

func (r *run) enforced(p *program.Program, policies int) {
	r.mu.Lock()
	r.state.Ready, r.state.Message = true, fmt.Sprintf("%d policies, %d chains, %d sets", policies, len(p.Chains), len(p.Sets))
	if n := len(p.Beyond); n > 0 {
		r.state.Message += fmt.Sprintf("; %d policies do not fit into the budgets of their namespaces, the first of namespace %s", n, p.Beyond[0].Policy.Namespace)
	}
	r.state.Generation++
	r.mu.Unlock()
	r.once.Do(func() { close(r.first) })
}

// Apply implements proxy.Proxy. Services are none of its business.
func (e *Enforcer) Apply(context.Context, *proxy.Diff) error {
	return errors.New(Name + " enforces network policies and serves no services; take it out of node.proxies")
}

// Status implements proxy.Proxy.
func (e *Enforcer) Status() proxy.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	state := e.state
	if e.switches != nil {
		state.Ready, state.Message = false, e.switches.Error()+"; "+state.Message
	}
	return state
}

// Stop implements proxy.Proxy. Without cleanup the policies stay in force. One that runs out
// of time is finished by the next.
func (e *Enforcer) Stop(ctx context.Context, cleanup bool) error {
	e.mu.Lock()
	r := e.running
	e.running, e.state, e.switches = nil, proxy.Status{Message: "stopped"}, nil
	e.mu.Unlock()
	if r == nil {
		return nil
	}
	r.cancel()
	select {
	case <-r.done:
	case <-ctx.Done():
		e.mu.Lock()
		e.running, e.state.Message = r, "stopping"
		e.mu.Unlock()
		return fmt.Errorf("stop %s: %w", Name, ctx.Err())
	}
	r.helpers.Wait()
	if r.source != nil {
		r.source.wait()
	}
	var err error
	if cleanup {
		err = errors.Join(r.filter.Remove(), r.bridges.Restore())
	}
	return errors.Join(err, r.filter.Close())
}
