package nftables

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	"pintle.dev/pintle/plugins/proxies/measures"
	"pintle.dev/pintle/plugins/proxies/serviceport"
	"pintle.dev/pintle/sdk/proxy"
)

// side is one family's half of the proxy.
type side struct {
	planner
	settings settings
	wanted   *wanted
	services map[proxy.Name][]*portState
	// next numbers ports in the order in which they come. Number 0 is the node's addresses.
	next      uint64
	addresses taken // elements of nodePortIPs
	known     bool  // the kernel holds what wanted says it holds
	made      bool  // there is a table
}

// portState is a port with what it wants.
type portState struct {
	id        serviceport.ID
	number    uint64
	taken     taken
	endpoints int
	serving   conntrack.Serving // of UDP ports
}

func newSide(f *family, s settings, nodeIPs []netip.Addr) *side {
	return &side{planner: planner{f, nodeIPs}, settings: s, wanted: newWanted(), services: map[proxy.Name][]*portState{}, next: 1}
}

// update plans the ports of a service anew, and notes what of its UDP flows is stale.
func (s *side) update(state *proxy.State, name proxy.Name, node string, flows *conntrack.Stale) {
	old := map[serviceport.ID]*portState{}
	for _, p := range s.services[name] {
		old[p.id] = p
	}
	var now []*portState
	for _, port := range serviceport.OfFamily(state, name, node, s.f.of) {
		p := old[port.ID]
		if p != nil {
			delete(old, port.ID)
			s.wanted.remove(p.taken, p.number)
		} else {
			p = &portState{id: port.ID, number: s.next}
			s.next++
		}
		planned := s.plan(port)
		p.taken, p.endpoints = s.wanted.add(planned, p.number), planned.endpoints
		if port.Protocol == "UDP" {
			s.noteFlows(state, p, port, flows)
		}
		now = append(now, p)
	}
	for _, p := range old {
		s.wanted.remove(p.taken, p.number)
	}
	if len(now) > 0 {
		s.services[name] = now
	} else {
		delete(s.services, name)
	}
}

// noteFlows looks for stale flows of a port whose endpoints changed.
func (s *side) noteFlows(state *proxy.State, p *portState, port *serviceport.Port, flows *conntrack.Stale) {
	now := conntrack.ServingOf(state.Of(port.ID.Name, &proxy.ServicePort{Name: port.ID.Port, Protocol: port.Protocol}), s.f.parse)
	if maps.Equal(now, p.serving) {
		return
	}
	p.serving = now
	var addresses []netip.Addr
	for _, text := range slices.Concat([]string{port.ClusterIP}, port.ExternalIPs, port.LoadBalancerIPs) {
		if a, ok := s.f.parse(text); ok {
			addresses = append(addresses, a)
		}
	}
	flows.Add(addresses, port.Number, port.NodePort, now)
}

// serveOn sets the addresses that node ports are served on, where it is not all.
func (s *side) serveOn(addresses []netip.Addr) {
	var p plan
	for _, a := range addresses {
		if a.Is4() == (s.f.bytes == 4) {
			p.elements = append(p.elements, element{newItem(nodePortIPs, a.AsSlice()), "", asClusterIP})
		}
	}
	s.wanted.remove(s.addresses, 0)
	s.addresses = s.wanted.add(p, 0)
}

// idle reports that the family is not in use: nothing is to be served, and nothing to be refused.
func (s *side) idle() bool { return len(s.services) == 0 && len(s.settings.services) == 0 }

// measured is sync, and counts it where the family is in use.
func (s *side) measured(k kernel) error {
	if s.idle() && !s.made {
		return s.sync(k)
	}
	sync := measures.Begin(s.f.name, !s.known || !s.made)
	err := s.sync(k)
	sync.End(err == nil)
	if err != nil {
		measures.NFTablesFailed(s.f.name)
	}
	return err
}

// sync brings the kernel what changed. What the kernel does not take is a sign that somebody
// else changed the table: then the table is read and mended, and made anew if that fails.
func (s *side) sync(k kernel) error {
	if s.known && s.made {
		t := s.wanted.pending()
		if t.empty() || s.send(k, t) == nil {
			s.wanted.settle()
			return nil
		}
	}
	if s.known && s.idle() {
		s.wanted.settle()
		return nil
	}
	s.known = false
	err := s.mend(k, false)
	if err != nil {
		if again := s.mend(k, true); again != nil {
			return fmt.Errorf("%w; and all anew: %w", err, again)
		}
	}
	s.known = true
	return nil
}

func (s *side) send(k kernel, t transaction) error {
	for _, part := range t.split(mostElements, mostChains) {
		if part.empty() {
			continue
		}
		if err := k.commit(s.f, s.settings, part); err != nil {
			return err
		}
	}
	return nil
}

// mend reads the table and sends what differs, or makes the table anew.
func (s *side) mend(k kernel, rebuild bool) error {
	there, err := k.read(s.f)
	if err != nil {
		return err
	}
	if s.idle() {
		if there.exists {
			err = k.remove(s.f)
		}
		if err == nil {
			s.wanted.adopt(nil, nil)
			s.made = false
		}
		return err
	}
	if rebuild || there.foreign {
		there = found{foreign: true}
	}
	t := s.wanted.whole(there)
	t.rebuild = there.foreign
	if err := s.send(k, t); err != nil {
		return err
	}
	s.wanted.adopt(there.chains, there.maps)
	s.made = true
	return nil
}

// prune deletes chains that nothing leads to. It happens some time after they were left: an
// older kernel counts what led to them for a while.
func (s *side) prune(k kernel) error {
	chains, maps := s.wanted.stale()
	if !s.known || !s.made || len(chains)+len(maps) == 0 {
		return nil
	}
	if err := k.prune(s.f, chains, maps); err != nil {
		s.known = false // what there is, the next sync reads
		return err
	}
	s.wanted.pruned()
	return nil
}

// endpoints counts what packets may be sent to.
func (s *side) endpoints() int {
	n := 0
	for _, ports := range s.services {
		for _, p := range ports {
			n += p.endpoints
		}
	}
	return n
}
