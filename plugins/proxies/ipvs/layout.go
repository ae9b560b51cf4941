package ipvs

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/conntrack"
)

// tableName is the name of the table in each family.
const tableName = "pintle-ipvs"

// tableFamily is what a family is to nftables.
type tableFamily struct {
	table        *nft.Table
	address      nft.SetDatatype
	saddr, daddr uint32 // where they are in a packet
	unreachable  uint8  // the code of ICMP by which a port is refused
}

var (
	ipv4 = &family{name: "IPv4", of: 4, bits: 32, conntrack: conntrack.IPv4, tableFamily: tableFamily{
		&nft.Table{Name: tableName, Family: nft.TableFamilyIPv4}, nft.TypeIPAddr, 12, 16, 3,
	}}
	ipv6 = &family{name: "IPv6", of: 6, bits: 128, conntrack: conntrack.IPv6, tableFamily: tableFamily{
		&nft.Table{Name: tableName, Family: nft.TableFamilyIPv6}, nft.TypeIP6Addr, 8, 24, 4,
	}}
)

// settings are what rules depend on and no service changes.
type settings struct {
	masquerade    uint32 // the bit that asks for it
	masqueradeAll bool
	pods          []netip.Prefix // where pods are; none: not known
	tag, tagBits  uint32         // of marks of servers
}

// hook is where the kernel calls a chain.
type hook struct {
	kind     nft.ChainType
	at       *nft.ChainHook
	priority nft.ChainPriority
}

// fixed is a chain of the layout with its rules.
type fixed struct {
	name  string
	hook  *hook // nil where other chains jump to it
	rules []rule
}

// IPVS takes packets of this machine right after the chains for outgoing addresses, at -98, and
// those that arrive at 99: what is decided before it has the front as destination.
const (
	beforeNAT nft.ChainPriority = -110
	atNAT     nft.ChainPriority = -100
	atFilter  nft.ChainPriority = 0
	lateMark  nft.ChainPriority = 90
	atSource  nft.ChainPriority = 100
)

// layout writes the chains that do not depend on services. Chains come before those that jump to
// them.
func (f *family) layout(s settings) []fixed {
	front := f.loadFront()
	marked := markIs(s.tag, s.tagBits)
	guard := does(isNew(), front, one(verdictOf(guards)))
	refuse := does(isNew(), front, one(verdictOf(refusals)))
	mark := does(front, one(valueOf(inside, 0, 0), setMark()))
	filter := func(name string, at *nft.ChainHook, p nft.ChainPriority, rules ...rule) fixed {
		return fixed{name, &hook{nft.ChainTypeFilter, at, p}, rules}
	}
	nat := func(name string, at *nft.ChainHook, p nft.ChainPriority, rules ...rule) fixed {
		return fixed{name, &hook{nft.ChainTypeNAT, at, p}, rules}
	}
	arriving := []rule{guard}
	if len(s.pods) > 0 {
		marking := f.sourceWithin(s.pods, false)
		marking.exprs = slices.Concat(marking.exprs, mark.exprs)
		arriving = append(arriving, marking)
	}
	ask := []rule{does(front, one(within(everywhereFronts, 0)), asksFor(s.masquerade))}
	switch {
	case s.masqueradeAll:
		ask = append(ask, does(front, one(within(clusterFronts, 0)), asksFor(s.masquerade)))
	case len(s.pods) > 0:
		// The cluster's range is routed to this node from outside; the answer comes back by it.
		outside := f.sourceWithin(s.pods, true)
		outside.exprs = slices.Concat(outside.exprs, front, one(within(clusterFronts, 0)), asksFor(s.masquerade))
		ask = append(ask, outside)
	}
	toBound := one(f.load(f.daddr, 0), within(bound, 0))
	return []fixed{
		{chainReject, nil, []rule{does(one(f.reject()))}},
		filter("arriving", nft.ChainHookPrerouting, beforeNAT, arriving...),
		filter("leaving", nft.ChainHookOutput, beforeNAT, guard, mark, does(marked, one(accept())), refuse),
		filter("delivered", nft.ChainHookInput, atFilter,
			does(marked, one(accept())), refuse,
			does(isNew(), front, one(within(fronts, 0), accept())),
			// By an address of a service nothing else of this node is reached.
			does(one(loadProtocol(0), is(0, []byte{unix.IPPROTO_TCP}), loadPort(0), within(healthPorts, 0), accept())),
			does(isNew(), toBound, one(f.reject()))),
		nat("nat-arriving", nft.ChainHookPrerouting, atNAT, ask...),
		nat("nat-leaving", nft.ChainHookOutput, atNAT, ask...),
		filter("marks", nft.ChainHookPostrouting, lateMark, does(marked, changeMark(^uint32(0), 0))),
		nat("masquerading", nft.ChainHookPostrouting, atSource,
			// The bit goes first: a packet that an overlay wraps comes by again.
			does(hasBit(s.masquerade), changeMark(s.masquerade, 0), one(masquerade())),
			// This node asks by the address that it asks, since that is its own.
			does(one(f.load(f.saddr, 0), within(bound, 0), masquerade())),
			// A pod that reaches itself must see the node's address.
			does(one(f.load(f.saddr, 0), f.load(f.daddr, f.words()), loadProtocol(2*f.words()), loadPort(2*f.words()+1), within(hairpins, 0), masquerade()))),
	}
}

// guardRules are those of a chain of source ranges.
func (f *family) guardRules(allowed string) []rule {
	prefixes := f.prefixes(strings.Fields(allowed))
	if len(prefixes) == 0 {
		return []rule{does(one(drop()))} // ranges of another family let no packet pass
	}
	r := f.sourceWithin(prefixes, true)
	r.exprs = append(r.exprs, drop())
	return []rule{r}
}

// rule is what one rule does, in order; an expression that finds nothing ends it.
type rule struct {
	exprs  []expr.Any
	ranges []nft.SetElement // of a set that exists with the rule alone
	lookup *expr.Lookup     // that wants it
}

func does(parts ...[]expr.Any) rule { return rule{exprs: slices.Concat(parts...)} }

func one(list ...expr.Any) []expr.Any { return list }

// register names one of the sixteen registers of four bytes.
func register(i int) uint32 { return unix.NFT_REG32_00 + uint32(i) }

// words is how many registers an address takes.
func (f *family) words() int { return f.bits / 32 }

func (f *family) load(offset uint32, r int) expr.Any {
	return &expr.Payload{DestRegister: register(r), Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(f.bits / 8)}
}

func loadProtocol(r int) expr.Any {
	return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register(r)}
}

// loadPort loads the destination port, which TCP, UDP and SCTP have at one place.
func loadPort(r int) expr.Any {
	return &expr.Payload{DestRegister: register(r), Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

// loadFront loads the destination of a packet as the key of a front.
func (f *family) loadFront() []expr.Any {
	return one(f.load(f.daddr, 0), loadProtocol(f.words()), loadPort(f.words()+1))
}

func verdictOf(id setID) expr.Any {
	return &expr.Lookup{SourceRegister: register(0), DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: id.String()}
}

func valueOf(id setID, from, to int) expr.Any {
	return &expr.Lookup{SourceRegister: register(from), DestRegister: register(to), IsDestRegSet: true, SetName: id.String()}
}

func within(id setID, r int) expr.Any {
	return &expr.Lookup{SourceRegister: register(r), SetName: id.String()}
}

func is(r int, data []byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: register(r), Data: data}
}

func accept() expr.Any { return &expr.Verdict{Kind: expr.VerdictAccept} }
func drop() expr.Any   { return &expr.Verdict{Kind: expr.VerdictDrop} }

func (f *family) reject() expr.Any {
	return &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: f.unreachable}
}

// masquerade gives a packet this machine's address, with a source port at random: else two
// connections that start at once may be given the same.
func masquerade() expr.Any { return &expr.Masq{FullyRandom: true} }

func number(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func masked(keep, flip uint32) expr.Any {
	return &expr.Bitwise{SourceRegister: register(0), DestRegister: register(0), Len: 4, Mask: number(keep), Xor: number(flip)}
}

// isNew goes on with packets of connections that no answer was seen of.
func isNew() []expr.Any {
	return one(&expr.Ct{Register: register(0), Key: expr.CtKeySTATE}, masked(expr.CtStateBitNEW, 0),
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register(0), Data: number(0)})
}

func loadMark() expr.Any { return &expr.Meta{Key: expr.MetaKeyMARK, Register: register(0)} }
func setMark() expr.Any {
	return &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: register(0)}
}

// changeMark sets the mark without the bits of clear and with those of flip flipped.
func changeMark(clear, flip uint32) []expr.Any {
	return one(loadMark(), masked(^clear, flip), setMark())
}

// asksFor sets a bit of the mark.
func asksFor(bit uint32) []expr.Any { return changeMark(bit, bit) }

func hasBit(bit uint32) []expr.Any { return markIs(bit, bit) }

// markIs goes on where bits of the mark are as said.
func markIs(value, bits uint32) []expr.Any {
	return one(loadMark(), masked(bits, 0), is(0, number(value)))
}

// sourceWithin goes on where the source is in one of the prefixes, or outside of all.
func (f *family) sourceWithin(prefixes []netip.Prefix, outside bool) rule {
	lookup := &expr.Lookup{SourceRegister: register(0), Invert: outside}
	return rule{exprs: one(f.load(f.saddr, 0), lookup), ranges: intervals(prefixes), lookup: lookup}
}

// intervals writes prefixes as the kernel has ranges: the first address of each, and the first one
// after it. Those that meet are one, since the kernel refuses ranges that overlap.
func intervals(prefixes []netip.Prefix) []nft.SetElement {
	sorted := slices.Clone(prefixes)
	slices.SortFunc(sorted, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	var out []nft.SetElement
	var end netip.Addr // the first address after the open range; invalid: there is none
	for i, p := range sorted {
		after := lastOf(p).Next()
		switch {
		case i > 0 && !end.IsValid():
			return out // everything from here on is in it
		case i > 0 && p.Addr().Compare(end) <= 0:
			if !after.IsValid() || end.Less(after) {
				end = after
			}
			continue
		case i > 0:
			out = append(out, nft.SetElement{Key: end.AsSlice(), IntervalEnd: true})
		}
		out = append(out, nft.SetElement{Key: p.Addr().AsSlice()})
		end = after
	}
	if end.IsValid() {
		out = append(out, nft.SetElement{Key: end.AsSlice(), IntervalEnd: true})
	}
	return out
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
