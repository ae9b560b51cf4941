package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	"pintle.dev/pintle/plugins/proxies/healthcheck"
	"pintle.dev/pintle/plugins/proxies/loop"
	"pintle.dev/pintle/plugins/proxies/measures"
	"pintle.dev/pintle/plugins/proxies/sysctl"
	"pintle.dev/pintle/sdk/proxy"
)

// Proxy implements proxy.Proxy with nftables.
type Proxy struct {
	kernel    kernel
	addresses func() ([]netip.Addr, error) // of this machine
	proc      string                       // the kernel's switches
	flows     *conntrack.Forgetter
	others    []func(context.Context) error // removes what other proxies left

	room conntrack.Watch // says when no flow can be added

	mu         sync.Mutex
	log        *slog.Logger
	cfg        Config
	node       string
	nodeIPs    []netip.Addr
	stateDir   string
	health     *healthcheck.Server
	state      proxy.State
	sides      []*side
	generation uint32    // the kernel's, when its tables were ours to the last element; 0: not known
	changed    time.Time // when the tables were last written
	alone      bool      // what other proxies left is gone
	localhost  bool      // 127.0.0.1 is to be opened to node ports when its guard is there
	failure    error
	loop       loop.Loop
}

var _ proxy.Proxy = (*Proxy)(nil)

// New returns a proxy that is not started. The functions remove what other proxies left on
// the machine; they are called when this one serves everything, so that no connection is lost
// by the change.
func New(others ...func(context.Context) error) *Proxy {
	return &Proxy{kernel: &tables{}, addresses: machineAddresses, proc: "/proc/sys", flows: conntrack.NewForgetter(measures.Flows), others: others}
}

// Remove deletes the tables of an earlier run. Where the kernel has no nftables there are none.
func Remove(context.Context) error {
	k := &tables{}
	return errors.Join(k.remove(ipv4), k.remove(ipv6), k.close())
}

func machineAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list addresses of this machine: %w", err)
	}
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && !ip.IsLoopback() {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out, nil
}

// Probe implements proxy.Proxy. It changes nothing: the rules are made and deleted in one
// transaction, in a table that sees no packet.
func (p *Proxy) Probe(_ context.Context, config []byte) error {
	if _, err := parseConfig(config); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("nftables needs root")
	}
	k := &tables{}
	return errors.Join(k.probe(), k.close())
}

// Start implements proxy.Proxy. The tables that an earlier run left keep carrying traffic
// until the first diff brings them up to date.
func (p *Proxy) Start(ctx context.Context, o proxy.Options) error {
	cfg, err := parseConfig(o.Config)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pods := o.ClusterCIDRs
	if len(slices.DeleteFunc(slices.Clone(pods), func(s string) bool { return s == "" })) == 0 {
		pods = o.PodCIDRs
	}
	withIPv6 := len(ipv6.prefixes(slices.Concat(pods, o.ServiceCIDRs))) > 0
	local := cfg.everyAddress() && *cfg.LocalhostNodePorts
	if err := (sysctl.Settings{Proc: p.proc, StateDirectory: o.StateDirectory}).Set(sysctl.Needs{IPv6: withIPv6}); err != nil {
		return fmt.Errorf("start proxy nftables: %w", err)
	}
	p.log, p.cfg, p.stateDir, p.node, p.localhost = o.Logger, cfg, o.StateDirectory, o.NodeName, local
	p.nodeIPs = nil
	for _, ip := range o.NodeIPs {
		if a, err := netip.ParseAddr(ip); err == nil {
			p.nodeIPs = append(p.nodeIPs, a.Unmap())
		}
	}
	p.sides = nil
	for _, f := range []*family{ipv4, ipv6} {
		p.sides = append(p.sides, newSide(f, settings{
			mark: cfg.mark, masqueradeAll: cfg.MasqueradeAll, pods: f.prefixes(pods), services: f.prefixes(o.ServiceCIDRs),
			everyAddress: cfg.everyAddress(), localhost: local,
		}, p.nodeIPs))
	}
	p.state, p.generation, p.changed, p.alone, p.failure = proxy.State{}, 0, time.Time{}, false, nil
	p.health = healthcheck.New(o.Logger, *cfg.HealthzBindAddress)
	if !cfg.everyAddress() {
		p.health.ServeOn(nil) // nowhere, until the addresses are known
	}
	p.flows.Start()
	p.loop.Start(ctx, cfg.sync, p.check)
	return nil
}

// check mends the tables, once a period, where somebody changed them, and forgets flows that
// could not be before. It says where the kernel has no room for new flows.
func (p *Proxy) check(ctx context.Context) {
	p.room.Look(p.log)
	if p.mended(ctx) {
		p.flows.Forget(p.log)
	}
}

// mended mends the tables, and says whether they have what is wanted.
func (p *Proxy) mended(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Generation == 0 || ctx.Err() != nil {
		return false
	}
	now, err := p.kernel.generation()
	read := err != nil || p.generation == 0 || now != p.generation
	if read {
		for _, s := range p.sides {
			s.known = false
		}
	}
	if err := p.sync(ctx); err != nil {
		p.log.Error("loading the rules failed; the old ones stay in force", "error", err)
		return false
	}
	if err := p.counted(p.prune); err != nil {
		p.log.Warn("chains that nothing leads to are deleted later", "error", err)
	}
	if read && len(p.state.Services) > many {
		debug.FreeOSMemory()
	}
	return true
}

func (p *Proxy) prune() error {
	var errs []error
	for _, s := range p.sides {
		err := s.prune(p.kernel)
		if err != nil {
			measures.CleanupFailed(s.f.name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Apply implements proxy.Proxy.
func (p *Proxy) Apply(ctx context.Context, diff *proxy.Diff) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	if err := p.take(ctx, diff); err != nil {
		return err
	}
	p.flows.Forget(p.log)
	return nil
}

// take brings the kernel a diff, and notes the flows that are stale by it.
func (p *Proxy) take(ctx context.Context, diff *proxy.Diff) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health.Queued()
	measures.Changes(diff)
	touched := p.state.Apply(diff)
	slim(&p.state, touched)
	stale := map[*side]*conntrack.Stale{}
	for _, s := range p.sides {
		stale[s] = conntrack.NewStale()
	}
	// In order, so that after each start the same one of two services has an address that
	// both want.
	for _, name := range slices.SortedFunc(maps.Keys(touched), byName) {
		for _, s := range p.sides {
			s.update(&p.state, name, p.node, stale[s])
		}
	}
	for s, flows := range stale {
		p.flows.Note(s.f.conntrack, flows)
	}
	p.health.Sync(&p.state)
	if err := p.sync(ctx); err != nil {
		return err
	}
	if len(touched) > many {
		// A full load leaves garbage that weighs more than what is kept.
		debug.FreeOSMemory()
	}
	return nil
}

// many is how many services a diff touches, or a table holds that is read, for the garbage to be
// worth a collection.
const many = 1000

func byName(a, b proxy.Name) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// slim lets go of what a service says that no rule needs: users who may write services may write
// some hundred kilobytes of annotations to each.
func slim(s *proxy.State, touched map[proxy.Name]bool) {
	for name := range touched {
		if svc := s.Services[name]; svc != nil {
			svc.Labels, svc.Annotations = nil, nil
		}
	}
}

// wait holds a change back until minSyncPeriod after the one before.
func (p *Proxy) wait(ctx context.Context) error {
	p.mu.Lock()
	left := time.Until(p.changed.Add(p.cfg.least))
	least := p.cfg.least
	p.mu.Unlock()
	if least == 0 || left <= 0 {
		return nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// sync brings the kernel everything. The caller holds mu.
func (p *Proxy) sync(ctx context.Context) error {
	p.failure = p.counted(p.load)
	if p.failure == nil {
		p.failure = p.openLocalhost()
	}
	if p.failure != nil {
		return p.failure
	}
	p.changed = time.Now()
	p.health.Updated()
	if !p.alone {
		p.alone = true
		for _, remove := range p.others {
			if err := remove(ctx); err != nil {
				p.log.Warn("what another proxy left on the machine is there still", "error", err)
				p.alone = false
			}
		}
		if len(p.others) > 0 {
			p.generation = 0 // the others change tables, too
		}
	}
	return nil
}

// openLocalhost lets packets to 127.0.0.1 leave to pods, once the table of IPv4 is there, which
// guards that address.
func (p *Proxy) openLocalhost() error {
	if !p.localhost || !p.sides[0].made {
		return nil
	}
	if err := (sysctl.Settings{Proc: p.proc, StateDirectory: p.stateDir}).Set(sysctl.Needs{Localhost: true}); err != nil {
		return fmt.Errorf("open 127.0.0.1 to node ports: %w", err)
	}
	p.localhost = false
	return nil
}

func (p *Proxy) load() error {
	if !p.cfg.everyAddress() {
		addresses, err := p.nodePortAddresses()
		if err != nil {
			return err
		}
		for _, s := range p.sides {
			s.serveOn(addresses)
		}
		p.health.ServeOn(addresses)
	}
	var errs []error
	for _, s := range p.sides {
		errs = append(errs, s.measured(p.kernel))
	}
	return errors.Join(errs...)
}

// nodePortAddresses are those of this machine that node ports are served on.
func (p *Proxy) nodePortAddresses() ([]netip.Addr, error) {
	if p.cfg.nodePorts == nil {
		return p.nodeIPs, nil
	}
	all, err := p.addresses()
	if err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(all, func(a netip.Addr) bool {
		return !slices.ContainsFunc(p.cfg.nodePorts, func(r netip.Prefix) bool { return r.Contains(a) })
	})
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

// counted does what writes tables, and keeps the kernel's generation if no other process wrote any
// meanwhile. Where it is not known before, it is known after.
func (p *Proxy) counted(write func() error) error {
	before, known := p.generation, true
	if slices.ContainsFunc(p.sides, func(s *side) bool { return !s.known }) {
		var err error
		before, err = p.kernel.generation()
		known = err == nil
	}
	start := p.kernel.commits()
	err := write()
	p.generation = 0
	if err != nil || !known || before == 0 {
		return err
	}
	if now, gone := p.kernel.generation(); gone == nil && now == before+p.kernel.commits()-start {
		p.generation = now
	}
	return nil
}

// Status implements proxy.Proxy.
func (p *Proxy) Status() proxy.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := proxy.Status{Ready: p.failure == nil && p.state.Generation > 0, Generation: p.state.Generation, Services: len(p.state.Services)}
	if p.failure != nil {
		s.Message = p.failure.Error()
	}
	for _, side := range p.sides {
		s.Endpoints += side.endpoints()
	}
	return s
}

// Stop implements proxy.Proxy. What the tables had rewritten stays so: the kernel tracks each
// connection by itself.
func (p *Proxy) Stop(_ context.Context, clean bool) error {
	p.loop.Stop()
	p.flows.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health.Close()
	p.health = nil
	if !clean {
		return p.kernel.close()
	}
	return errors.Join(p.kernel.remove(ipv4), p.kernel.remove(ipv6), p.kernel.close(), sysctl.Settings{Proc: p.proc, StateDirectory: p.stateDir}.Restore())
}
