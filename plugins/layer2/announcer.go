package layer2

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/sdk/proxy"
)

// Name is the plugin's.
const Name = "layer2"

const (
	// settle is how long changes gather: a rollout is many.
	settle = 100 * time.Millisecond
	// check is how often the node's interface is looked at.
	check = 5 * time.Second
	// mostHeard bounds packets that wait.
	mostHeard = 256
)

// Announcer implements proxy.Proxy.
type Announcer struct {
	mu      sync.Mutex
	running *run
	state   proxy.Status
}

var _ proxy.Proxy = (*Announcer)(nil)

// New returns an announcer that is not started.
func New() *Announcer { return &Announcer{state: proxy.Status{Message: "not started"}} }

// run is from a start to a stop.
type run struct {
	*Announcer
	node   string
	ip     netip.Addr
	failed string // the fault that the loop meets now, if any
	log    *slog.Logger
	source *source
	events *events
	wake   chan struct{}
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Probe implements proxy.Proxy.
func (a *Announcer) Probe(_ context.Context, config []byte) error {
	if len(bytes.TrimSpace(config)) > 0 {
		d := json.NewDecoder(bytes.NewReader(config))
		d.DisallowUnknownFields()
		if err := d.Decode(&struct{}{}); err != nil {
			return fmt.Errorf("configuration of %s: it has no keys: %w", Name, err)
		}
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a packet socket, which needs the capability NET_RAW: %w", err)
	}
	return unix.Close(socket)
}

// Start implements proxy.Proxy.
func (a *Announcer) Start(ctx context.Context, o proxy.Options) error {
	if o.APISocket == "" {
		return errors.New("start " + Name + ": it has no way to the API; its rules in the manifest were not granted")
	}
	core, discovery, err := clients(o.APISocket)
	if err != nil {
		return fmt.Errorf("start %s: %w", Name, err)
	}
	if err := a.Stop(ctx, false); err != nil {
		return fmt.Errorf("start %s: %w", Name, err)
	}
	ip, err := ipv4(o.NodeIPs)
	if err != nil {
		// Another try does not help: the addresses are of this start.
		o.Logger.Warn("addresses of load balancers are not announced by this node", "error", err)
		a.mu.Lock()
		a.state = proxy.Status{Ready: true, Message: err.Error()}
		a.mu.Unlock()
		return nil
	}
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run{Announcer: a, node: o.NodeName, ip: ip, log: o.Logger, events: newEvents(core, o.NodeName, o.Logger), wake: make(chan struct{}, 1), cancel: cancel}
	r.source = newSource(loop, core, discovery, r.poke)
	a.mu.Lock()
	a.running, a.state = r, proxy.Status{Ready: true, Message: "services are not read yet"}
	a.mu.Unlock()
	r.done.Go(func() { r.events.run(loop) })
	r.done.Go(func() { r.loop(loop) })
	return nil
}

func ipv4(texts []string) (netip.Addr, error) {
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Unmap().Is4() {
			return ip.Unmap(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("the node has no IPv4 address among %q", texts)
}

// poke says that something changed.
func (r *run) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// gathered waits until changes have gathered. A change does not put it off, so that changes
// without an end are followed too.
type gathered struct {
	timer   *time.Timer
	pending bool
}

// newGathered fires at once: the first look waits for no change.
func newGathered() *gathered { return &gathered{timer: time.NewTimer(0), pending: true} }

func (g *gathered) add() {
	if !g.pending {
		g.timer.Reset(settle)
		g.pending = true
	}
}

// session is the time for which one interface is open.
type session struct {
	place  place
	claims *claims
	heard  chan heard
	failed chan error
	end    func()
}

// loop follows the cluster, the interface and its packets until ctx ends.
func (r *run) loop(ctx context.Context) {
	var s *session
	var next time.Time
	defer func() { s.close() }()
	tick := time.NewTicker(check)
	defer tick.Stop()
	changes, timer := newGathered(), time.NewTimer(0)
	defer changes.timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
			changes.add()
			continue
		case <-tick.C:
			s = r.follow(ctx, s)
		case <-changes.timer.C:
			changes.pending = false
			s = r.follow(ctx, s)
		case p := <-s.packets():
			s.claims.hear(p, time.Now())
		case err := <-s.faults():
			r.fault(err)
			s.close()
			s = nil
			continue // the next look opens it again
		case <-timer.C:
		}
		if s == nil {
			continue
		}
		if next = s.claims.due(time.Now()); !next.IsZero() {
			timer.Reset(max(0, time.Until(next)))
		}
	}
}

// follow looks at the interface and at the cluster, and returns the session that is open
// then: none while the network has no address of a load balancer.
func (r *run) follow(ctx context.Context, s *session) *session {
	at, err := find(r.ip)
	if err != nil {
		r.fault(err)
		s.close()
		return nil
	}
	if s != nil && !s.place.same(at) {
		s.close()
		s = nil
	}
	c, known := r.source.cluster(ctx, at.network)
	if !known {
		return s
	}
	if len(addressesOn(at.network, c.services)) == 0 {
		r.works(fmt.Sprintf("no load balancer has an address of %s on %s", at.network, at.ifi.Name))
		s.close()
		return nil
	}
	if s == nil {
		if s, err = r.open(ctx, at); err != nil {
			r.fault(err)
			return nil
		}
	}
	p := planOf(r.node, at.network, c)
	s.claims.follow(p, time.Now())
	r.works(fmt.Sprintf("answers for %d addresses of %s on %s", len(p.hold), at.network, at.ifi.Name))
	return s
}

func (r *run) open(ctx context.Context, at place) (*session, error) {
	l, err := openARP(&at.ifi, at.ip)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &session{place: at, claims: newClaims(l, at.ifi.HardwareAddr, r.events, r.log), heard: make(chan heard, mostHeard), failed: make(chan error, 1)}
	var reader sync.WaitGroup
	reader.Go(func() {
		if err := l.read(ctx, s.heard); err != nil {
			s.failed <- err
		}
	})
	s.end = func() {
		cancel()
		if err := l.Close(); err != nil {
			r.log.Warn("a packet socket was not closed", "error", err)
		}
		reader.Wait()
	}
	return s, nil
}

func (s *session) close() {
	if s != nil {
		s.claims.follow(plan{}, time.Now())
		s.end()
	}
}

// packets and faults are nil without a session: nothing comes then.
func (s *session) packets() <-chan heard {
	if s == nil {
		return nil
	}
	return s.heard
}

func (s *session) faults() <-chan error {
	if s == nil {
		return nil
	}
	return s.failed
}

// fault is called for what the loop tries again by itself. The status stays Ready: another
// start does not help, and would lose what is known.
func (r *run) fault(err error) {
	if r.failed != err.Error() {
		r.failed = err.Error()
		r.log.Warn("addresses of load balancers are not announced; it is tried again", "error", err)
	}
	r.say("not announced: " + r.failed)
}

func (r *run) works(message string) {
	if r.failed != "" {
		r.failed = ""
		r.log.Info("addresses of load balancers are announced again")
	}
	r.say(message)
}

func (r *run) say(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == r {
		r.state.Ready, r.state.Message = true, message
		r.state.Generation++
	}
}

// Apply implements proxy.Proxy. Services are not sent to it.
func (a *Announcer) Apply(context.Context, *proxy.Diff) error {
	return errors.New(Name + " announces addresses and serves no services; take it out of node.proxies")
}

// Status implements proxy.Proxy.
func (a *Announcer) Status() proxy.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Stop implements proxy.Proxy: from then on this node answers for no address. Nothing of it
// stays on the machine.
func (a *Announcer) Stop(ctx context.Context, _ bool) error {
	a.mu.Lock()
	r := a.running
	if r == nil {
		a.state = proxy.Status{Message: "stopped"}
	}
	a.mu.Unlock()
	if r == nil {
		return nil
	}
	r.cancel()
	ended := make(chan struct{})
	go func() {
		r.done.Wait()
		r.source.wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", Name, ctx.Err())
	}
	a.mu.Lock()
	a.running, a.state = nil, proxy.Status{Message: "stopped"}
	a.mu.Unlock()
	return nil
}
