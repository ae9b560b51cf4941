package ipvs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	"pintle.dev/pintle/plugins/proxies/healthcheck"
	"pintle.dev/pintle/plugins/proxies/loop"
	"pintle.dev/pintle/plugins/proxies/measures"
	"pintle.dev/pintle/plugins/proxies/sysctl"
	"pintle.dev/pintle/sdk/proxy"
)

// retirePeriod is how often real servers that wait for their connections to end are looked at, as
// with kube-proxy.
const retirePeriod = time.Minute

// Proxy implements proxy.Proxy with IPVS.
type Proxy struct {
	host   host
	open   func() (balancer, error)
	proc   string // the kernel's switches
	flows  *conntrack.Forgetter
	others []func(context.Context) error // removes what other proxies left

	mu         sync.Mutex
	log        *slog.Logger
	cfg        Config
	node       string
	nodeIPs    []netip.Addr
	stateDir   string
	health     *healthcheck.Server
	state      proxy.State
	sides      []*side
	on         map[netip.Addr]bool // addresses on the device; nil: not known
	elsewhere  map[netip.Addr]bool // the machine's others
	generation uint32              // of nftables, when the tables were ours to the last element; 0: not known
	changed    time.Time
	alone      bool // what other proxies left is gone
	failure    error
	loop       loop.Loop
	retiring   loop.Loop
}

var _ proxy.Proxy = (*Proxy)(nil)

// New returns a proxy that is not started. The functions remove what other proxies left on the
// machine; they are called when this one serves everything.
func New(others ...func(context.Context) error) *Proxy {
	return &Proxy{host: host{tables: &kernelTables{}, device: dummy{}}, open: openIPVS, proc: "/proc/sys", flows: conntrack.NewForgetter(measures.Flows), others: others}
}

// Probe implements proxy.Proxy. It makes a virtual server at an address of documentation and
// deletes it, so that the scheduler is known to be there.
func (p *Proxy) Probe(_ context.Context, config []byte) error {
	cfg, err := parseConfig(config)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("ipvs needs root")
	}
	b, err := p.open()
	if err != nil {
		return err
	}
	defer b.close()
	return probe(b, cfg.Scheduler)
}

// probe makes a virtual server that no packet comes to, and deletes it.
func probe(b balancer, scheduler string) error {
	s := server{front: front{netip.MustParseAddr("198.51.100.0"), unix.IPPROTO_TCP, 20000}}
	list, err := b.list(ipv4)
	if err != nil {
		return err
	}
	if _, there := list[s]; !there {
		if err := b.set(ipv4, s, virtual{scheduler: scheduler}, true); err != nil {
			return err
		}
	}
	return b.remove(ipv4, s)
}

// Start implements proxy.Proxy. What an earlier run left keeps carrying traffic until the first
// diff brings it up to date.
func (p *Proxy) Start(ctx context.Context, o proxy.Options) error {
	cfg, err := parseConfig(o.Config)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host.balancer, err = p.open(); err != nil {
		return fmt.Errorf("start proxy ipvs: %w", err)
	}
	p.log, p.cfg, p.stateDir, p.node = o.Logger, cfg, o.StateDirectory, o.NodeName
	if err := p.prepare(o); err != nil {
		p.host.balancer.close()
		return fmt.Errorf("start proxy ipvs: %w", err)
	}
	p.state, p.generation, p.changed, p.alone, p.failure, p.on = proxy.State{}, 0, time.Time{}, false, nil, nil
	p.health = healthcheck.New(o.Logger, *cfg.HealthzBindAddress)
	if !cfg.everyAddress() {
		p.health.ServeOn(nil) // nowhere, until the addresses are known
	}
	p.loop.Start(ctx, cfg.sync, p.check)
	p.retiring.Start(ctx, retirePeriod, p.retire)
	return nil
}

// prepare makes what does not depend on services.
func (p *Proxy) prepare(o proxy.Options) error {
	pods := slices.DeleteFunc(slices.Clone(o.ClusterCIDRs), func(s string) bool { return s == "" })
	if len(pods) == 0 {
		pods = o.PodCIDRs
	}
	withIPv6 := len(ipv6.prefixes(slices.Concat(pods, o.ServiceCIDRs))) > 0
	if err := p.switches().Set(sysctl.Needs{IPVS: true, OldIPVS: oldIPVS(), IPv6: withIPv6, StrictARP: p.cfg.StrictARP}); err != nil {
		return err
	}
	if p.cfg.timeouts != (timeouts{}) {
		if err := rememberTimeouts(p.stateDir, p.host.balancer); err != nil {
			return err
		}
		if err := p.host.balancer.setTimeouts(p.cfg.timeouts); err != nil {
			return err
		}
	}
	p.nodeIPs = nil
	for _, ip := range o.NodeIPs {
		if a, err := netip.ParseAddr(ip); err == nil {
			p.nodeIPs = append(p.nodeIPs, a.Unmap())
		}
	}
	p.sides = nil
	p.flows.Start()
	for _, f := range []*family{ipv4, ipv6} {
		p.sides = append(p.sides, newSide(f, settings{masquerade: p.cfg.mark, masqueradeAll: p.cfg.MasqueradeAll, pods: f.prefixes(pods)}, p.nodeIPs))
	}
	return nil
}

func (p *Proxy) switches() sysctl.Settings {
	return sysctl.Settings{Proc: p.proc, StateDirectory: p.stateDir}
}

// oldIPVS reports whether the kernel is one before 5.9.
func oldIPVS() bool {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false
	}
	return before59(unix.ByteSliceToString(u.Release[:]))
}

func before59(release string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return n == 2 && (major < 5 || major == 5 && minor < 9)
}

// check reads what the kernel has, once a period, and mends it.
func (p *Proxy) check(ctx context.Context) {
	if p.mended(ctx) {
		p.flows.Forget(p.log)
	}
}

func (p *Proxy) mended(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Generation == 0 || ctx.Err() != nil {
		return false
	}
	p.on = nil
	now, err := p.host.tables.generation()
	for _, s := range p.sides {
		s.listed = false
		s.known = s.known && err == nil && p.generation != 0 && now == p.generation
	}
	if err := p.sync(ctx); err != nil {
		p.log.Error("bringing services to the kernel failed; it is tried again", "error", err)
		return false
	}
	for _, s := range p.sides {
		commits, err := s.prune(p.host.tables)
		if err != nil {
			p.log.Warn("chains that nothing leads to are deleted later", "error", err)
		}
		p.committed(commits)
	}
	return true
}

// committed follows the kernel's count of transactions, as long as all are ours.
func (p *Proxy) committed(n uint32) {
	if p.generation != 0 {
		p.generation += n
	}
}

// retire takes real servers away whose connections have ended.
func (p *Proxy) retire(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Generation == 0 || ctx.Err() != nil || !slices.ContainsFunc(p.sides, func(s *side) bool { return s.held.retiring() }) {
		return
	}
	if err := p.sync(ctx); err != nil {
		p.log.Error("taking real servers away failed; it is tried again", "error", err)
	}
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
	stale := map[*side]*conntrack.Stale{}
	for _, s := range p.sides {
		stale[s] = conntrack.NewStale()
	}
	// In order, so that after each start the same one of two services has a front that both want.
	for _, name := range slices.SortedFunc(maps.Keys(touched), byName) {
		for _, s := range p.sides {
			s.update(&p.state, name, p.node, stale[s])
		}
	}
	for s, flows := range stale {
		p.flows.Note(s.f.conntrack, flows)
	}
	p.health.Sync(&p.state)
	return p.sync(ctx)
}

func byName(a, b proxy.Name) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
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
	if p.failure = p.load(); p.failure != nil {
		p.generation, p.on = 0, nil
		return p.failure
	}
	p.changed = time.Now()
	p.health.Updated()
	if p.alone {
		return nil
	}
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
	return nil
}

func (p *Proxy) load() error {
	if p.on == nil {
		if err := p.look(); err != nil {
			return err
		}
		// What an earlier process left goes, also where its family has no service any more.
		for _, s := range p.sides {
			for a := range p.on {
				s.made = s.made || a.BitLen() == s.f.bits
			}
		}
	}
	if slices.ContainsFunc(p.sides, func(s *side) bool { return !s.known && !s.idle() }) {
		now, err := p.host.tables.generation()
		if err != nil {
			return err
		}
		p.generation = now
	}
	w := wishes{scheduler: p.cfg.Scheduler, elsewhere: p.elsewhere, healthPorts: map[uint16]bool{}}
	for _, svc := range p.state.Services {
		if n := svc.GetHealthCheckNodePort(); n > 0 && n < 1<<16 {
			w.healthPorts[uint16(n)] = true
		}
	}
	var errs []error
	for _, s := range p.sides {
		commits, err := s.sync(p.host, w, p.on, p.cfg.excludes)
		p.committed(commits)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// look reads the machine's addresses.
func (p *Proxy) look() error {
	if err := p.host.device.ensure(); err != nil {
		return err
	}
	on, elsewhere, err := p.host.device.addresses()
	if err != nil {
		return err
	}
	p.on, p.elsewhere = on, elsewhere
	serve := p.nodeIPs
	switch {
	case p.cfg.nodePorts != nil:
		serve = nil
		for a := range elsewhere {
			if slices.ContainsFunc(p.cfg.nodePorts, func(r netip.Prefix) bool { return r.Contains(a) }) {
				serve = append(serve, a)
			}
		}
	case p.cfg.everyAddress():
		serve = slices.Collect(maps.Keys(elsewhere))
	}
	for _, s := range p.sides {
		s.serveOn(serve)
	}
	if !p.cfg.everyAddress() {
		p.health.ServeOn(serve)
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

// Stop implements proxy.Proxy.
func (p *Proxy) Stop(_ context.Context, clean bool) error {
	p.loop.Stop()
	p.retiring.Stop()
	p.flows.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health.Close()
	p.health = nil
	if p.host.balancer == nil {
		return nil
	}
	var err error
	if clean {
		err = errors.Join(p.host.removeAll(), restoreTimeouts(p.stateDir, p.host.balancer), p.switches().Restore())
	}
	p.host.balancer.close()
	p.host.balancer = nil
	return errors.Join(err, p.host.tables.close())
}
