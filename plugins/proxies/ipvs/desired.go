package ipvs

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/serviceport"
)

// server names a virtual server: by its front, or by a mark (then the front is none).
type server struct {
	front
	mark uint32
}

// virtual is what a virtual server is like.
type virtual struct {
	scheduler string
	sticky    uint32 // seconds; 0: no affinity
	graceful  bool   // its real servers stay until their connections end; the kernel knows nothing of it
}

// same reports whether the kernel needs no change from one to the other.
func (v virtual) same(o virtual) bool { return v.scheduler == o.scheduler && v.sticky == o.sticky }

// desired is everything that one family wants.
type desired struct {
	servers map[server]virtual
	real    map[server][]netip.AddrPort
	bound   map[netip.Addr]bool // on pintle-ipvs0
	tables  contents
}

// portState is a port with its plan.
type portState struct {
	id     serviceport.ID
	number uint64 // in which order ports came
	port   *serviceport.Port
	plan   plan
}

// wishes are what joining plans depends on besides.
type wishes struct {
	scheduler   string
	elsewhere   map[netip.Addr]bool // addresses that the machine has on other devices
	healthPorts map[uint16]bool     // answered at every address of the machine
}

// join says what all ports want together. Of two ports that want one front the one of lower rank
// has it, else the one that came first.
func join(ports iterPorts, m *marker, w wishes) desired {
	type holder struct {
		*claim
		number uint64
	}
	fronts := map[front]holder{}
	d := desired{map[server]virtual{}, map[server][]netip.AddrPort{}, map[netip.Addr]bool{}, newContents()}
	for p := range ports {
		for i := range p.plan.claims {
			c := &p.plan.claims[i]
			has, taken := fronts[c.front]
			if !taken || cmp.Or(cmp.Compare(c.rank, has.rank), cmp.Compare(p.number, has.number)) < 0 {
				fronts[c.front] = holder{c, p.number}
			}
		}
		for _, h := range p.plan.hairpins {
			d.tables.add(hairpins, h.key(), "")
		}
	}
	m.keep(func(f front) bool { h := fronts[f]; return h.claim != nil && len(h.inside) > 0 })
	// In order, so that of two fronts that draw one mark always the same has it.
	for _, f := range slices.SortedFunc(maps.Keys(fronts), front.compare) {
		c := fronts[f].claim
		d.add(c, w)
		if len(c.inside) > 0 {
			mark := m.mark(f)
			d.serve(server{mark: mark}, c.inside, c.virtual(w).ofMark())
			d.tables.add(inside, f.key(), string(markValue(mark)))
		}
	}
	for a := range d.bound {
		d.tables.add(bound, a.AsSlice(), "")
	}
	for port := range w.healthPorts {
		d.tables.add(healthPorts, portKey(port), "")
	}
	return d
}

func (d *desired) serve(s server, endpoints []netip.AddrPort, v virtual) {
	d.servers[s], d.real[s] = v, endpoints
}

func (c *claim) virtual(w wishes) virtual {
	return virtual{w.scheduler, c.sticky, c.protocol == unix.IPPROTO_TCP}
}

// ofMark is the same for the server of a mark. With affinity the kernel sends what such a server
// gets to the port that the client asked, and not to the endpoint's. So the client's address
// chooses the endpoint: it is the same one for as long as the endpoints are.
func (v virtual) ofMark() virtual {
	if v.sticky > 0 {
		v.scheduler, v.sticky = "sh", 0
	}
	return v
}

// add is a front that has its holder.
func (d *desired) add(c *claim, w wishes) {
	d.serve(server{front: c.front}, c.endpoints, c.virtual(w))
	// An address that the machine has elsewhere stays there alone: it is reached by that. A
	// cluster IP is the cluster's own.
	if c.bind && (c.cluster || !w.elsewhere[c.address]) {
		d.bound[c.address] = true
	}
	key := c.front.key()
	d.tables.add(fronts, key, "")
	if c.cluster {
		d.tables.add(clusterFronts, key, "")
	}
	if c.everywhere {
		d.tables.add(everywhereFronts, key, "")
	}
	switch c.refusal {
	case dropped:
		d.tables.add(refusals, key, verdictDrop)
	case rejected:
		d.tables.add(refusals, key, chainReject)
	}
	if c.guarded {
		d.tables.add(guards, key, d.tables.guard(c.allowed))
	}
}

func (f front) compare(o front) int {
	return cmp.Or(f.address.Compare(o.address), cmp.Compare(f.protocol, o.protocol), cmp.Compare(f.port, o.port))
}
