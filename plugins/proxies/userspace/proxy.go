package userspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	"pintle.dev/pintle/plugins/proxies/healthcheck"
	"pintle.dev/pintle/plugins/proxies/serviceport"
	"pintle.dev/pintle/plugins/proxies/sysctl"
	"pintle.dev/pintle/sdk/proxy"
)

// Config is the proxy's configuration.
type Config struct {
	// MaxConnections bounds what is open at once, over all services.
	// Defaults to 16384.
	MaxConnections int `json:"maxConnections,omitempty"`
	// UDPIdle is how long a silent UDP client keeps its endpoint. Defaults to 250ms.
	UDPIdle string `json:"udpIdle,omitempty"`

	// HealthzBindAddress is where /healthz and /livez are served; empty: nowhere.
	// Defaults to 0.0.0.0:10256.
	HealthzBindAddress *string `json:"healthzBindAddress,omitempty"`

	idle time.Duration
}

func parseConfig(data []byte) (Config, error) {
	c := Config{MaxConnections: 16384, UDPIdle: "250ms"}
	if len(data) > 0 {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c); err != nil {
			return c, fmt.Errorf("read configuration of proxy userspace: %w", err)
		}
	}
	if c.MaxConnections < 1 {
		return c, fmt.Errorf("configuration of proxy userspace: maxConnections %d: want 1 or more", c.MaxConnections)
	}
	if err := healthcheck.SetAddress(&c.HealthzBindAddress); err != nil {
		return c, fmt.Errorf("configuration of proxy userspace: %w", err)
	}
	idle, err := time.ParseDuration(c.UDPIdle)
	if err != nil || idle <= 0 {
		return c, fmt.Errorf("configuration of proxy userspace: udpIdle %q: want a duration such as 250ms", c.UDPIdle)
	}
	c.idle = idle
	return c, nil
}

// Proxy implements proxy.Proxy by copying bytes.
type Proxy struct {
	portalsFor func(hostIP string) portals
	forget     func(gone func(conntrack.Flow) bool) error
	others     []func(context.Context) error // removes what other proxies left

	mu       sync.Mutex
	log      *slog.Logger
	cfg      Config
	portals  portals
	limit    chan struct{}
	balancer *balancer
	origin   origin
	node     string
	stateDir string
	health   *healthcheck.Server
	state    proxy.State
	open     map[serviceport.ID]*opened
	failures map[serviceport.ID]error
	alone    bool // what other proxies left is gone
	// stale are addresses of UDP ports whose way in was opened or closed: the kernel leads
	// flows that it knows as before, each packet of them.
	stale map[netip.AddrPort]bool
}

// opened is what is open for one service port.
type opened struct {
	port    *serviceport.Port
	entries []entry
}

// entry is one way in: an address of the service, or its node port (ip empty).
type entry struct {
	ip     string
	socket *socket
}

var _ proxy.Proxy = (*Proxy)(nil)

// New returns a proxy that is not started. The functions remove what other proxies left on
// the machine; they are called when this one serves everything.
func New(others ...func(context.Context) error) *Proxy {
	return &Proxy{portalsFor: choosePortals, forget: forgetFlows, others: others}
}

// Probe implements proxy.Proxy: this proxy can run everywhere.
func (p *Proxy) Probe(_ context.Context, config []byte) error {
	_, err := parseConfig(config)
	return err
}

// Start implements proxy.Proxy.
func (p *Proxy) Start(ctx context.Context, o proxy.Options) error {
	cfg, err := parseConfig(o.Config)
	if err != nil {
		return err
	}
	host := "127.0.0.1"
	if len(o.NodeIPs) > 0 {
		host = o.NodeIPs[0]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log, p.cfg, p.portals = o.Logger, cfg, p.portalsFor(host)
	p.limit = make(chan struct{}, cfg.MaxConnections)
	p.balancer, p.state, p.node, p.stateDir, p.alone = newBalancer(), proxy.State{}, o.NodeName, o.StateDirectory, false
	p.origin = newOrigin(o)
	p.open, p.failures = map[serviceport.ID]*opened{}, map[serviceport.ID]error{}
	p.stale = map[netip.AddrPort]bool{}
	if err := p.portals.prepare(ctx); err != nil {
		return fmt.Errorf("start proxy userspace: %w", err)
	}
	p.health = healthcheck.New(o.Logger, *cfg.HealthzBindAddress)
	p.log.Info("services are reached by", "portals", p.portals.String())
	return nil
}

// Apply implements proxy.Proxy.
func (p *Proxy) Apply(ctx context.Context, diff *proxy.Diff) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health.Queued()
	// Status says what one service lacks; that does not make the proxy unhealthy.
	defer p.health.Updated()
	touched := p.state.Apply(diff)
	p.health.Sync(&p.state)
	wanted := map[serviceport.ID]*serviceport.Port{}
	for name := range touched {
		for _, port := range serviceport.Of(&p.state, name, p.node) {
			wanted[port.ID] = port
		}
	}
	for id, have := range p.open {
		if !touched[id.Name] {
			continue
		}
		want := wanted[id]
		if want == nil || !want.SamePath(have.port) { // PUS-6, PUS-7
			p.shut(ctx, id)
		}
	}
	for id := range p.failures {
		if touched[id.Name] {
			delete(p.failures, id)
		}
	}
	for id, want := range wanted {
		p.balancer.update(want)
		if have := p.open[id]; have != nil {
			have.port = want
			continue
		}
		if err := p.start(ctx, want); err != nil {
			p.failures[id] = fmt.Errorf("service %s: %w", id, err)
		}
	}
	p.forgetStale()
	if err := errors.Join(p.failed()...); err != nil {
		return err
	}
	p.removeOthers(ctx)
	return nil
}

// removeOthers removes what other proxies left, once. Their rules stand before the portals,
// and lead to endpoints that were right when they were written. Without root there is nothing
// that this process could remove.
func (p *Proxy) removeOthers(ctx context.Context) {
	if _, unprivileged := p.portals.(noPortals); p.alone || unprivileged {
		return
	}
	p.alone = true
	for _, remove := range p.others {
		if err := remove(ctx); err != nil {
			p.log.Warn("what another proxy left on the machine is there still", "error", err)
			p.alone = false
		}
	}
	if len(p.others) > 0 && p.alone {
		// The rules that guarded it are gone.
		if err := (sysctl.Settings{Proc: "/proc/sys", StateDirectory: p.stateDir}).CloseLocalhost(); err != nil {
			p.log.Warn("neighbours may reach 127.0.0.1 of this machine", "error", err)
		}
	}
}

// forgetStale has the kernel forget the flows at the addresses that are stale. They stay so where
// that fails, for the next change.
func (p *Proxy) forgetStale() {
	if len(p.stale) == 0 {
		return
	}
	stale := p.stale
	err := p.forget(func(f conntrack.Flow) bool { return f.Protocol == unix.IPPROTO_UDP && stale[f.Original.Destination] })
	if err != nil {
		p.log.Warn("UDP clients may be led to where nothing answers", "error", err)
		return
	}
	p.stale = map[netip.AddrPort]bool{}
}

func forgetFlows(gone func(conntrack.Flow) bool) error {
	_, err := conntrack.Delete(conntrack.IPv4, gone)
	return err
}

// moved notes that the way in by an address changed.
func (p *Proxy) moved(port *serviceport.Port, ip string) {
	if _, chains := p.portals.(*chainPortals); !chains || port.Protocol != "UDP" {
		return // TCP connections end by themselves, and without rules no flow is led
	}
	if a, err := netip.ParseAddr(ip); err == nil {
		p.stale[netip.AddrPortFrom(a, uint16(port.Number))] = true
	}
}

func (p *Proxy) failed() []error {
	var errs []error
	for _, err := range p.failures {
		errs = append(errs, err)
	}
	slices.SortFunc(errs, func(a, b error) int { return bytes.Compare([]byte(a.Error()), []byte(b.Error())) })
	return errs
}

// start opens a port: socket, record, rules, balancer (PUS-16; the balancer
// was told before, so that no client comes too early).
func (p *Proxy) start(ctx context.Context, port *serviceport.Port) error {
	have := &opened{port: port}
	p.open[port.ID] = have
	log := p.log.With("service", port.ID.String())
	for i, ip := range slices.Concat([]string{port.ClusterIP}, port.ExternalIPs, port.LoadBalancerIPs) {
		choose := p.outside(port)
		switch {
		case i == 0:
			choose = p.inside(port)
		case i > len(port.ExternalIPs):
			choose = p.origin.restrict(port, choose)
		}
		if a, ok := p.portals.(*addressPortals); ok {
			if err := a.claim(ip); err != nil {
				p.shut(ctx, port.ID)
				return err
			}
		}
		host, number := p.portals.listenAt(ip, port.Number)
		s, err := listen(port.Protocol, host, number, choose, p.limit, p.cfg.idle, log)
		if err != nil {
			p.shut(ctx, port.ID)
			return err
		}
		have.entries = append(have.entries, entry{ip, s})
		if err := p.portals.open(ctx, port, ip, s.port); err != nil {
			p.shut(ctx, port.ID)
			return err
		}
		p.moved(port, ip)
	}
	if port.NodePort > 0 {
		s, err := listen(port.Protocol, "0.0.0.0", port.NodePort, p.outside(port), p.limit, p.cfg.idle, log)
		if err != nil {
			p.shut(ctx, port.ID)
			return fmt.Errorf("node port %d: %w", port.NodePort, err)
		}
		have.entries = append(have.entries, entry{"", s})
	}
	return nil
}

// inside chooses for traffic to the cluster IP. Ports of another traffic policy
// are opened anew, so the policy is that of the port it was opened for.
func (p *Proxy) inside(port *serviceport.Port) chooser {
	return func(client string, fresh bool) (serviceport.Endpoint, error) {
		return p.balancer.pick(list{port.ID, port.InternalLocal}, client, fresh)
	}
}

// outside chooses for traffic to addresses for outside: under
// externalTrafficPolicy Local pods and this node have all endpoints, everybody
// else this node's.
func (p *Proxy) outside(port *serviceport.Port) chooser {
	return func(client string, fresh bool) (serviceport.Endpoint, error) {
		return p.balancer.pick(list{port.ID, port.ExternalLocal && !p.origin.inside(client)}, client, fresh)
	}
}

// shut closes everything of a port.
func (p *Proxy) shut(ctx context.Context, id serviceport.ID) {
	have := p.open[id]
	delete(p.open, id)
	p.balancer.remove(id)
	for _, e := range have.entries {
		if e.ip != "" {
			if err := p.portals.close(ctx, have.port, e.ip, e.socket.port); err != nil {
				p.log.Warn("removing the way to a service failed", "service", id.String(), "address", e.ip, "error", err)
			}
			p.moved(have.port, e.ip)
		}
		e.socket.close()
	}
}

// Status implements proxy.Proxy.
func (p *Proxy) Status() proxy.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := proxy.Status{Ready: len(p.failures) == 0 && p.state.Generation > 0, Generation: p.state.Generation, Services: len(p.state.Services)}
	if err := errors.Join(p.failed()...); err != nil {
		s.Message = err.Error()
	}
	for _, o := range p.open {
		s.Endpoints += len(o.port.Reachable())
	}
	return s
}

// Stop implements proxy.Proxy. The sockets end with this process, so the
// portals are removed even without cleanup: rules that lead to a port without a listener
// help no one.
func (p *Proxy) Stop(ctx context.Context, _ bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.open {
		p.shut(ctx, id)
	}
	p.forgetStale()
	p.health.Close()
	p.health = nil
	if p.portals == nil {
		return nil
	}
	return p.portals.cleanup(ctx)
}
