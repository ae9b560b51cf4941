package program

import (
	"net/netip"
)

// Family is an IP version: 4 or 6, or 0 for both.
type Family uint8

// The families.
const (
	Any Family = 0
	IP4 Family = 4
	IP6 Family = 6
)

func familyOf(a netip.Addr) Family {
	if a.Is4() {
		return IP4
	}
	return IP6
}

// Names of the base chains, which are asked in this order.
const (
	Egress  = "egress"
	Ingress = "ingress"
)

// Kind says what the elements of a set are.
type Kind uint8

const (
	// Addresses has addresses.
	Addresses Kind = iota + 1
	// Ranges has the first addresses of ranges; the value is the last.
	Ranges
	// Sockets has addresses with a protocol and a port behind them.
	Sockets
	// Pairs has pairs of addresses: of the source and of the destination.
	Pairs
	// Chains has addresses; the value is the name of a chain.
	Chains
)

// Set is a set of one family, which does not change once it is part of a program. A key's bytes are in network order: an address, then a byte
// of the protocol and two of the port, or another address.
type Set struct {
	Family   Family
	Kind     Kind
	Elements map[string]string
}

// Match is what a rule is about, beside what its other fields ask for.
type Match uint8

const (
	// Packet is any packet.
	Packet Match = iota
	// Established is a packet of a connection that was allowed, or that belongs to one.
	Established
	// Neighbours is what IPv6 finds neighbours and routers by.
	Neighbours
)

// Verdict is what becomes of a packet.
type Verdict uint8

const (
	// Accept ends the base chain; the next one is asked.
	Accept Verdict = iota + 1
	// Drop ends the packet.
	Drop
	// Jump asks the chain Target, and goes on behind it.
	Jump
	// Look asks the chain that the map Target has for the address, if it has one: of the
	// source in the base chain egress, of the destination in ingress.
	Look
)

// Rule is one rule. What is empty is not asked for.
type Rule struct {
	Match    Match
	Family   Family
	Protocol uint8
	// Low to High is a range of destination ports; both 0: all.
	Low, High uint16
	// Source and Destination are sets that the address is in.
	Source, Destination string
	// Pair is a set of pairs, Socket one of sockets, of the destination.
	Pair, Socket string
	// Within is a range that the address is in, and Unless a set that it is not in: of the
	// source in the base chain egress, of the destination in ingress.
	Within netip.Prefix
	Unless string
	// From and To are ranges of the source and of the destination.
	From, To netip.Prefix
	// Bridge is one that carries the packet from one of its ports to another.
	Bridge string

	Verdict Verdict
	Target  string
	// Comment is shown to who lists the rules.
	Comment string
}

// Program is all that a machine's packet filter is given. One without chains is empty.
type Program struct {
	Sets   map[string]*Set
	Chains map[string][]Rule
	// Beyond are the policies that did not fit into the budgets of their namespaces.
	Beyond []Beyond
}

// Empty says whether there is nothing to enforce.
func (p *Program) Empty() bool { return len(p.Chains) == 0 }

// set returns the set of a name, which it makes.
func (p *Program) set(name string, family Family, kind Kind) *Set {
	s := p.Sets[name]
	if s == nil {
		s = &Set{Family: family, Kind: kind, Elements: map[string]string{}}
		p.Sets[name] = s
	}
	return s
}

func key(a netip.Addr) string { return string(a.AsSlice()) }

func socketKey(a netip.Addr, protocol uint8, port uint16) string {
	return key(a) + string([]byte{protocol, byte(port >> 8), byte(port)})
}
