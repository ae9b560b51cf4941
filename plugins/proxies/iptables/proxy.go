package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os/exec"
	"slices"
	"sync"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	"pintle.dev/pintle/plugins/proxies/healthcheck"
	"pintle.dev/pintle/plugins/proxies/loop"
	"pintle.dev/pintle/plugins/proxies/measures"
	"pintle.dev/pintle/plugins/proxies/serviceport"
	"pintle.dev/pintle/plugins/proxies/sysctl"
	"pintle.dev/pintle/sdk/proxy"
)

// Proxy implements proxy.Proxy with iptables.
type Proxy struct {
	commands commands
	proc     string // the kernel's switches
	flows    *conntrack.Forgetter
	others   []func(context.Context) error // removes what other proxies left

	room conntrack.Watch // says when no flow can be added

	mu       sync.Mutex
	log      *slog.Logger
	cfg      Config
	render   renderer
	base     base
	node     string
	health   *healthcheck.Server
	stateDir string
	state    proxy.State
	ports    map[serviceport.ID]*serviceport.Port
	rendered map[serviceport.ID]rules
	serving  map[serviceport.ID]conntrack.Serving // of UDP ports
	nat      table                                // what the machine holds of ours; nil: not known
	filter   table
	holder   *holder
	alone    bool // what other proxies left is gone
	failure  error
	loop     loop.Loop
}

var _ proxy.Proxy = (*Proxy)(nil)

// New returns a proxy that is not started. The functions remove what other proxies left on
// the machine; they are called when this one serves everything, so that no connection is lost
// by the change.
func New(others ...func(context.Context) error) *Proxy {
	return &Proxy{commands: tools{}, proc: "/proc/sys", flows: conntrack.NewForgetter(measures.Flows), others: others}
}

// Remove deletes the rules of an earlier run. Where the tools are missing there are none.
func Remove(ctx context.Context) error {
	if _, err := exec.LookPath("iptables-save"); err != nil {
		return nil
	}
	for _, name := range []string{"nat", "filter"} {
		saved, err := (tools{}).save(ctx, name)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(chainsIn(saved), func(chain string) bool { return ours(chain) || chain == chainServices || chain == chainForward }) {
			return cleanup(ctx, tools{})
		}
	}
	return nil
}

// Probe implements proxy.Proxy.
func (p *Proxy) Probe(ctx context.Context, config []byte) error {
	if _, err := parseConfig(config); err != nil {
		return err
	}
	return probe(ctx)
}

// Start implements proxy.Proxy. The chains that an earlier run left keep
// carrying traffic until the first diff replaces them.
func (p *Proxy) Start(ctx context.Context, o proxy.Options) error {
	cfg, err := parseConfig(o.Config)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := (sysctl.Settings{Proc: p.proc, StateDirectory: o.StateDirectory}).Set(sysctl.Needs{Localhost: *cfg.LocalhostNodePorts}); err != nil {
		return fmt.Errorf("start proxy iptables: %w", err)
	}
	p.log, p.cfg, p.stateDir = o.Logger, cfg, o.StateDirectory
	pods := ipv4CIDRs(o.ClusterCIDRs)
	if len(pods) == 0 {
		pods = ipv4CIDRs(o.PodCIDRs)
	}
	p.node = o.NodeName
	p.render = renderer{masqueradeAll: cfg.MasqueradeAll, clusterCIDRs: pods, nodeIPs: o.NodeIPs}
	p.base = base{mark: cfg.mark(), localhost: *cfg.LocalhostNodePorts, randomFully: p.commands.randomFully(ctx), clusterCIDRs: pods}
	p.state = proxy.State{}
	p.ports, p.rendered = map[serviceport.ID]*serviceport.Port{}, map[serviceport.ID]rules{}
	p.serving = map[serviceport.ID]conntrack.Serving{}
	p.nat, p.filter, p.failure, p.alone = nil, nil, nil, false
	p.holder = newHolder()
	p.health = healthcheck.New(o.Logger, *cfg.HealthzBindAddress)
	p.flows.Start()
	p.loop.Start(ctx, cfg.resync, p.resync)
	return nil
}

func ipv4CIDRs(list []string) []string {
	var out []string
	for _, cidr := range list {
		if p, err := netip.ParsePrefix(cidr); err == nil && p.Addr().Is4() {
			out = append(out, cidr)
		}
	}
	return out
}

// resync loads everything anew once a period: somebody else may have flushed
// the tables.
func (p *Proxy) resync(ctx context.Context) {
	p.room.Look(p.log)
	if p.loaded(ctx) {
		p.flows.Forget(p.log)
	}
}

// loaded loads everything anew, and says whether that succeeded.
func (p *Proxy) loaded(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Generation == 0 {
		return false
	}
	p.nat, p.filter = nil, nil
	err := p.sync(ctx)
	if err != nil && ctx.Err() == nil {
		p.log.Error("loading the rules failed; the old ones stay in force", "error", err)
	}
	return err == nil
}

// Apply implements proxy.Proxy.
func (p *Proxy) Apply(ctx context.Context, diff *proxy.Diff) error {
	if err := p.take(ctx, diff); err != nil {
		return err
	}
	p.flows.Forget(p.log)
	return nil
}

// take loads the rules of a diff, and notes the flows that are stale by it.
func (p *Proxy) take(ctx context.Context, diff *proxy.Diff) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health.Queued()
	measures.Changes(diff)
	touched := p.state.Apply(diff)
	for id := range p.ports {
		if touched[id.Name] {
			delete(p.ports, id)
			delete(p.rendered, id)
		}
	}
	stale := conntrack.NewStale()
	for name := range touched {
		for _, port := range serviceport.Of(&p.state, name, p.node) {
			p.ports[port.ID] = port
			p.rendered[port.ID] = p.render.port(port)
			p.noteFlows(port, stale)
		}
	}
	p.flows.Note(conntrack.IPv4, stale)
	for id := range p.serving {
		if p.ports[id] == nil {
			delete(p.serving, id)
		}
	}
	p.health.Sync(&p.state)
	p.hold()
	if err := p.sync(ctx); err != nil {
		return err
	}
	p.holder.release(p.ports)
	return nil
}

// noteFlows looks for stale flows of a UDP port whose endpoints changed. The caller holds mu.
func (p *Proxy) noteFlows(port *serviceport.Port, stale *conntrack.Stale) {
	if port.Protocol != "UDP" {
		return
	}
	now := conntrack.ServingOf(p.state.Of(port.ID.Name, &proxy.ServicePort{Name: port.ID.Port, Protocol: port.Protocol}), parseIPv4)
	if before, known := p.serving[port.ID]; known && maps.Equal(now, before) {
		return
	}
	p.serving[port.ID] = now
	var addresses []netip.Addr
	for _, text := range slices.Concat([]string{port.ClusterIP}, port.ExternalIPs, port.LoadBalancerIPs) {
		if a, ok := parseIPv4(text); ok {
			addresses = append(addresses, a)
		}
	}
	stale.Add(addresses, port.Number, port.NodePort, now)
}

// familyName is the family that the proxy serves, as metrics name it.
const familyName = "IPv4"

func parseIPv4(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	a = a.Unmap()
	return a, err == nil && a.Is4()
}

// hold opens the node ports (requirement PIT-23); a port that another program
// has is left to it, and its rules are not written.
func (p *Proxy) hold() {
	for id, port := range p.ports {
		if port.NodePort == 0 {
			continue
		}
		if err := p.holder.hold(id, port.Protocol, port.NodePort); err != nil {
			p.log.Error("node port is taken by another program and not served", "service", id.String(), "nodePort", port.NodePort, "error", err)
			r := p.rendered[id]
			r.nodePorts = nil
			p.rendered[id] = r
		}
	}
}

// sync loads what differs. The caller holds mu.
func (p *Proxy) sync(ctx context.Context) error {
	sync := measures.Begin(familyName, p.nat == nil)
	p.failure = p.load(ctx)
	sync.End(p.failure == nil)
	if p.failure != nil {
		return p.failure
	}
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
	return nil
}

func (p *Proxy) load(ctx context.Context) error {
	full := p.nat == nil
	if full {
		if err := ensureJumps(ctx, p.commands); err != nil {
			return err
		}
		var err error
		if p.nat, p.filter, err = found(ctx, p.commands); err != nil {
			p.nat, p.filter = nil, nil
			return err
		}
	}
	nat, filter := desired(p.ports, p.rendered, p.base)
	input := restoreInput(p.nat, p.filter, nat, filter)
	if len(input) == 0 {
		return nil
	}
	if err := p.commands.restore(ctx, input); err != nil {
		measures.RestoreFailed(familyName, full)
		p.nat, p.filter = nil, nil // whatever is loaded now, the next sync is whole
		return err
	}
	p.nat, p.filter = nat, filter
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
	for _, port := range p.ports {
		s.Endpoints += len(port.Reachable())
	}
	return s
}

// Stop implements proxy.Proxy.
func (p *Proxy) Stop(ctx context.Context, clean bool) error {
	p.loop.Stop()
	p.flows.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holder != nil {
		p.holder.close()
	}
	p.health.Close()
	p.health = nil
	if !clean {
		return nil
	}
	return errors.Join(cleanup(ctx, p.commands), sysctl.Settings{Proc: p.proc, StateDirectory: p.stateDir}.Restore())
}
