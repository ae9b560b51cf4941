package layer2

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
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
	node string
	// four and six are the links of the node's addresses of IPv4 and IPv6; nil without one.
	four, six *nodeLink
	log       *slog.Logger
	source    *source
	events    *events
	wake      chan struct{}
	cancel    context.CancelFunc
	done      sync.WaitGroup
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
	four, six := linksOf(o.NodeIPs, o.Logger)
	if four == nil && six == nil {
		// Another try does not help: the addresses are of this start.
		err := fmt.Errorf("the node has no IP address of a network among %q", o.NodeIPs)
		o.Logger.Warn("addresses of load balancers are not announced by this node", "error", err)
		a.mu.Lock()
		a.state = proxy.Status{Ready: true, Message: err.Error()}
		a.mu.Unlock()
		return nil
	}
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run{Announcer: a, node: o.NodeName, four: four, six: six, log: o.Logger, events: newEvents(core, o.NodeName, o.Logger), wake: make(chan struct{}, 1), cancel: cancel}
	r.source = newSource(loop, core, discovery, r.poke)
	a.mu.Lock()
	a.running, a.state = r, proxy.Status{Ready: true, Message: "services are not read yet"}
	a.mu.Unlock()
	r.done.Go(func() { r.events.run(loop) })
	r.done.Go(func() { r.loop(loop) })
	return nil
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

// loop follows the cluster, the interfaces and their packets until ctx ends.
func (r *run) loop(ctx context.Context) {
	defer func() { r.four.close(); r.six.close() }()
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
			r.follow(ctx)
		case <-changes.timer.C:
			changes.pending = false
			r.follow(ctx)
		case p := <-r.four.packets():
			r.four.session.claims.hear(p, time.Now())
		case p := <-r.six.packets():
			r.six.session.claims.hear(p, time.Now())
		case err := <-r.four.faults(): // the next look opens it again
			r.four.fault(err)
			r.four.close()
		case err := <-r.six.faults():
			r.six.fault(err)
			r.six.close()
		case <-timer.C:
		}
		if next := earlier(r.four.due(), r.six.due()); !next.IsZero() {
			timer.Reset(max(0, time.Until(next)))
		}
		r.report()
	}
}

// earlier is the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// follow looks at the interfaces and at the cluster. A link is open while its network has an
// address of a load balancer.
func (r *run) follow(ctx context.Context) {
	var found []*nodeLink
	var networks []netip.Prefix
	for _, l := range []*nodeLink{r.four, r.six} {
		if l.find() {
			found, networks = append(found, l), append(networks, l.place.network)
		}
	}
	if len(found) == 0 {
		return
	}
	c, known := r.source.cluster(ctx, networks)
	if !known {
		return
	}
	for _, l := range found {
		l.follow(ctx, r.node, c, r.events)
	}
}

// report makes the status of what the links say. It stays Ready: another start does not
// help, and would lose what is known.
func (r *run) report() {
	var said []string
	for _, l := range []*nodeLink{r.four, r.six} {
		if l != nil && l.says != "" {
			said = append(said, l.says)
		}
	}
	message := strings.Join(said, "; ")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == r && message != "" && r.state.Message != message {
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
