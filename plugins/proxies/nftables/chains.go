package nftables

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// kind says what a chain does.
type kind uint8

const (
	// pick sends a packet to one of n endpoints, of any service: which service it is, the
	// destination says. Services share these chains.
	pick kind = iota
	// stick is a port's own pick, which sends a client to the endpoint it was sent to before.
	stick
	// outward takes packets to an address for outside, and goes on to a chain that picks.
	outward
	// guard drops what source ranges leave out.
	guard
)

// entrance is how a packet came to a service.
type entrance string

const (
	byService  entrance = "service"  // by its cluster IP
	byExternal entrance = "external" // by an external IP or a load balancer's address
	byNodePort entrance = "nodeport"
)

// chain is what a chain consists of. It is comparable: equal ones have equal rules.
type chain struct {
	name string
	kind kind

	// Of pick, and of stick for which way and service are constant.
	entrance entrance
	local    bool // of the endpoints of the traffic policy Local
	n        int

	// Of stick.
	service  string // the front of the cluster IP
	affinity string // the map that remembers clients
	timeout  time.Duration

	// Of outward: the chains for the policy Cluster, and for Local where the port has that
	// policy. Without toLocal packets from outside lead nowhere.
	policyLocal bool
	to, toLocal string

	// Of guard: prefixes, separated by spaces.
	allowed string
}

func listName(local bool) string {
	if local {
		return "local"
	}
	return "cluster"
}

func sharedPick(e entrance, local bool, n int) chain {
	return chain{name: fmt.Sprintf("%s-%s-%d", e, listName(local), n), kind: pick, entrance: e, local: local, n: n}
}

// settings are what rules depend on and no service changes.
type settings struct {
	mark          uint32
	masqueradeAll bool
	pods          []netip.Prefix // where pods are; none: not known
	services      []netip.Prefix // where cluster IPs are
	everyAddress  bool           // node ports are served on all addresses
	localhost     bool           // also on 127.0.0.1
}

// rules writes a chain.
func (c chain) rules(f *family, s settings) []rule {
	switch c.kind {
	case pick:
		return c.pick(f)
	case stick:
		return c.stick(f)
	case outward:
		return c.outward(f, s)
	default:
		return c.guard(f)
	}
}

func (c chain) endpoints() string {
	if c.local {
		return localEndpoints.String()
	}
	return clusterEndpoints.String()
}

// slots loads the number of an endpoint: one at random, and, where the maps were changed
// between two look-ups for one packet so that there is none of that number, the first.
func (c chain) slots(r int) [][]expr.Any {
	return [][]expr.Any{
		one(&expr.Numgen{Register: register(r), Modulus: uint32(c.n), Type: unix.NFT_NG_RANDOM}),
		constant(r, number(0)),
	}
}

func (c chain) pick(f *family) []rule {
	var which []expr.Any
	at := 0 // where the front of the cluster IP is
	switch c.entrance {
	case byService:
		which = f.loadFront(0)
	case byExternal:
		at = f.words() + 2
		which = append(f.loadFront(0), value(externalServices.String(), 0, at))
	case byNodePort:
		at = 2
		which = append(loadNodePort(0), value(nodePortServices.String(), 0, at))
	}
	slot := at + f.words() + 2
	to := slot + 1
	if to+f.words() >= 16 {
		to = 0 // the registers are at their end; those before the key are free again
	}
	var out []rule
	for _, load := range c.slots(slot) {
		out = append(out, does(which, load, one(value(c.endpoints(), at, to), f.destination(to))))
	}
	return out
}

// source is the register of the client's address in chains that stick.
const source = 12

func (c chain) stick(f *family) []rule {
	which := constant(0, []byte(c.service[:f.bytes]))
	which = append(which, constant(f.words(), []byte(c.service[f.bytes:]))...)
	members := clusterMembers
	if c.local {
		members = localMembers
	}
	client := one(f.loadAddress(f.saddr, source))
	slot := f.words() + 2
	to := slot + 1
	// A client that is known goes to its endpoint, if that is one still.
	known := does(which, client, one(
		value(c.affinity, source, slot),
		within(members.String(), 0),
		remember(c.affinity, unix.NFT_DYNSET_OP_UPDATE, source, slot),
		f.destination(slot)))
	slots := c.slots(slot)
	choose := func(load []expr.Any, then ...expr.Any) rule {
		return does(which, load, one(value(c.endpoints(), 0, to)), then, one(f.destination(to)))
	}
	return []rule{
		known,
		// An update leaves an old endpoint as it is, so that it is deleted before.
		choose(slots[0], f.loadAddress(f.saddr, source),
			remember(c.affinity, deleteOperation, source, to),
			remember(c.affinity, unix.NFT_DYNSET_OP_UPDATE, source, to)),
		// The map is full: any endpoint is better than none.
		choose(slots[0]),
		choose(slots[1]),
	}
}

// outward: where a packet may go to any node, it gets this node's address, so that the answer
// comes back by here. Under externalTrafficPolicy Local it keeps the client's; pods and this
// node use all endpoints, as if they had gone out to a load balancer and come back.
func (c chain) outward(f *family, s settings) []rule {
	if !c.policyLocal {
		return []rule{does(ask(s.mark)), does(one(goTo(c.to)))}
	}
	var out []rule
	if len(s.pods) > 0 {
		out = append(out, f.sourceWithin(s.pods, false, goTo(c.to)))
	}
	out = append(out, does(local(true), ask(s.mark)), does(local(true), one(goTo(c.to))))
	if c.toLocal != "" {
		out = append(out, does(one(goTo(c.toLocal))))
	}
	return out
}

func (c chain) guard(f *family) []rule {
	prefixes := f.prefixes(strings.Fields(c.allowed))
	if len(prefixes) == 0 {
		return []rule{does(one(drop()))}
	}
	return []rule{f.sourceWithin(prefixes, true, drop())}
}
