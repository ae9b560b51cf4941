package ipvs

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	"pintle.dev/pintle/plugins/proxies/measures"
	"pintle.dev/pintle/plugins/proxies/serviceport"
	"pintle.dev/pintle/sdk/proxy"
)

// host is the kernel by its three parts.
type host struct {
	tables   tables
	balancer balancer
	device   device
}

// side is one family's half of the proxy.
type side struct {
	planner
	settings settings
	marks    *marker
	services map[proxy.Name][]*portState
	serving  map[serviceport.ID]conntrack.Serving // of UDP ports
	next     uint64

	has    contents // of the table
	known  bool     // it has that
	held   held     // of IPVS
	listed bool     // it has that
	made   bool     // something of this family was made
}

func newSide(f *family, s settings, nodeIPs []netip.Addr) *side {
	m := newMarker(s.masquerade)
	s.tag, s.tagBits = m.tag()
	return &side{
		planner: planner{f: f, nodeIPs: nodeIPs}, settings: s, marks: m,
		services: map[proxy.Name][]*portState{}, serving: map[serviceport.ID]conntrack.Serving{},
	}
}

// update plans the ports of a service anew, and notes what of its UDP flows is stale.
func (s *side) update(state *proxy.State, name proxy.Name, node string, flows *conntrack.Stale) {
	old := map[serviceport.ID]*portState{}
	for _, p := range s.services[name] {
		old[p.id] = p
	}
	delete(s.services, name)
	for _, port := range serviceport.OfFamily(state, name, node, s.f.of) {
		p := old[port.ID]
		if p == nil {
			s.next++
			p = &portState{id: port.ID, number: s.next}
		}
		delete(old, port.ID)
		p.port, p.plan = port, s.plan(port)
		s.services[name] = append(s.services[name], p)
		if port.Protocol == "UDP" {
			s.noteFlows(state, port, flows)
		}
	}
	for id := range old {
		delete(s.serving, id)
	}
}

// noteFlows looks for stale flows of a port whose endpoints changed.
func (s *side) noteFlows(state *proxy.State, port *serviceport.Port, flows *conntrack.Stale) {
	now := conntrack.ServingOf(state.Of(port.ID.Name, &proxy.ServicePort{Name: port.ID.Port, Protocol: port.Protocol}), s.f.parse)
	if before, known := s.serving[port.ID]; known && maps.Equal(now, before) {
		return
	}
	s.serving[port.ID] = now
	flows.Add(s.addresses(slices.Concat([]string{port.ClusterIP}, port.ExternalIPs, port.LoadBalancerIPs)), port.Number, port.NodePort, now)
}

// serveOn sets the addresses that node ports are served on.
func (s *side) serveOn(all []netip.Addr) {
	var on []netip.Addr
	for _, a := range all {
		if a.BitLen() == s.f.bits {
			on = append(on, a)
		}
	}
	slices.SortFunc(on, netip.Addr.Compare)
	on = slices.Compact(on)
	if slices.Equal(on, s.nodePortsOn) {
		return
	}
	s.nodePortsOn = on
	for p := range s.ports() {
		p.plan = s.plan(p.port)
	}
}

func (s *side) ports() iterPorts {
	return func(yield func(*portState) bool) {
		for _, list := range s.services {
			for _, p := range list {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// idle reports that the family is not in use.
func (s *side) idle() bool { return len(s.services) == 0 && !s.made }

// sync brings the kernel what is wanted. First come the tables, so that no address of a service
// reaches what else this node serves, and none is served beyond its source ranges. What goes is
// deleted last: the virtual server, and then what the tables have of it.
func (s *side) sync(h host, w wishes, on map[netip.Addr]bool, excluded func(netip.Addr) bool) (commits uint32, err error) {
	if s.idle() {
		return 0, nil
	}
	sync := measures.Begin(s.f.name, !s.known)
	defer func() { sync.End(err == nil) }()
	want := join(s.ports(), s.marks, w)
	s.made = true
	if commits, err = s.write(h.tables, want.tables, !s.known, true); err != nil {
		s.known = false
		measures.NFTablesFailed(s.f.name)
		return commits, err
	}
	s.known = true
	if !s.listed {
		if s.held, err = hold(h.balancer, s.f); err != nil {
			return commits, err
		}
	}
	err = errors.Join(
		s.held.bring(h.balancer, s.f, want),
		s.bind(h.device, want.bound, on),
		s.held.clear(h.balancer, s.f, want, func(id server) bool {
			if id.mark != 0 {
				return s.marks.ours(id.mark)
			}
			return !excluded(id.address)
		}))
	s.listed = err == nil
	if err != nil || len(s.has.elements) == len(want.tables.elements) {
		return commits, err
	}
	more, err := s.write(h.tables, want.tables, false, false)
	if err != nil {
		s.known = false
		measures.NFTablesFailed(s.f.name)
	}
	return commits + more, err
}

// write brings the table what is wanted, all of it anew where that fails. With serving it leaves what
// virtual servers that go are held by.
func (s *side) write(k tables, want contents, full, serving bool) (commits uint32, err error) {
	var t transaction
	if full {
		has, whole, err := k.read(s.f)
		if err != nil {
			return 0, err
		}
		s.has, t.rebuild = has, !whole
	}
	if serving {
		want = s.has.whileServed(want)
	}
	if t.rebuild {
		t = newContents().to(want)
		t.rebuild = true
	} else {
		t = s.has.to(want)
	}
	if t.empty() {
		return 0, nil
	}
	if err = k.commit(s.f, s.settings, t); err != nil && !t.rebuild {
		t = newContents().to(want)
		t.rebuild = true
		if again := k.commit(s.f, s.settings, t); again != nil {
			return 0, fmt.Errorf("%w; and all anew: %w", err, again)
		}
	} else if err != nil {
		return 0, err
	}
	chains := map[string]string{}
	if !t.rebuild {
		maps.Copy(chains, s.has.chains) // they stay until they are pruned
	}
	maps.Copy(chains, want.chains)
	s.has = contents{want.elements, chains}
	return 1, nil
}

// bind puts the addresses of services on the device, and takes others of this family off it.
func (s *side) bind(d device, want, on map[netip.Addr]bool) error {
	var errs []error
	for a := range want {
		if on[a] {
			continue
		}
		err := d.bind(a)
		if err == nil {
			on[a] = true
		}
		errs = append(errs, err)
	}
	for a := range on {
		if a.BitLen() != s.f.bits || want[a] {
			continue
		}
		err := d.unbind(a)
		if err == nil {
			delete(on, a)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// prune deletes chains that nothing leads to. It happens some time after they were left: an older
// kernel counts what led to them for a while.
func (s *side) prune(k tables) (commits uint32, err error) {
	stale := s.has.stale(join(s.ports(), s.marks, wishes{}).tables)
	if !s.known || len(stale) == 0 {
		return 0, nil
	}
	if err := k.prune(s.f, stale); err != nil {
		measures.CleanupFailed(s.f.name)
		s.known = false
		return 0, err
	}
	for _, name := range stale {
		delete(s.has.chains, name)
	}
	return 1, nil
}

// endpoints counts what packets may be sent to.
func (s *side) endpoints() int {
	n := 0
	for p := range s.ports() {
		n += p.plan.endpoints
	}
	return n
}
