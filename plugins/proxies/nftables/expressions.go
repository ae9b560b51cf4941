package nftables

import (
	"encoding/binary"
	"net/netip"
	"slices"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// rule is what one rule does, in order; an expression that finds nothing ends it.
type rule struct {
	exprs  []expr.Any
	ranges *ranges // of a set that exists with the rule alone
}

// ranges is a set of address ranges without a name, and the look-up that wants it.
type ranges struct {
	lookup   *expr.Lookup
	elements []nft.SetElement
}

// does joins expressions to a rule.
func does(parts ...[]expr.Any) rule { return rule{exprs: slices.Concat(parts...)} }

// one is an expression as a part of a rule.
func one(list ...expr.Any) []expr.Any { return list }

// register names one of the sixteen registers of four bytes.
func register(i int) uint32 { return unix.NFT_REG32_00 + uint32(i) }

func (f *family) loadAddress(offset uint32, r int) expr.Any {
	return &expr.Payload{DestRegister: register(r), Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(f.bytes)}
}

func loadProtocol(r int) expr.Any {
	return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register(r)}
}

// loadPort loads the destination port, which TCP, UDP and SCTP have at one place.
func loadPort(r int) expr.Any {
	return &expr.Payload{DestRegister: register(r), Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

// loadFront loads the destination of a packet as the key of a front, words+2 registers.
func (f *family) loadFront(r int) []expr.Any {
	return one(f.loadAddress(f.daddr, r), loadProtocol(r+f.words()), loadPort(r+f.words()+1))
}

// loadNodePort loads the key of a node port, two registers.
func loadNodePort(r int) []expr.Any { return one(loadProtocol(r), loadPort(r+1)) }

// constant puts bytes into registers, at most sixteen each time, as the kernel takes them.
func constant(r int, data []byte) []expr.Any {
	var out []expr.Any
	for part := range slices.Chunk(data, 16) {
		out = append(out, &expr.Immediate{Register: register(r), Data: part})
		r += len(part) / 4
	}
	return out
}

// verdict follows what a map says of the key in registers from r on.
func verdict(id setID, r int) expr.Any {
	return &expr.Lookup{SourceRegister: register(r), DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: id.String()}
}

// value loads what a map has for the key in registers from r on.
func value(name string, r, to int) expr.Any {
	return &expr.Lookup{SourceRegister: register(r), DestRegister: register(to), IsDestRegSet: true, SetName: name}
}

// within goes on where a set has the key in registers from r on.
func within(name string, r int) expr.Any {
	return &expr.Lookup{SourceRegister: register(r), SetName: name}
}

func jump(to string) expr.Any { return &expr.Verdict{Kind: expr.VerdictJump, Chain: to} }
func goTo(to string) expr.Any { return &expr.Verdict{Kind: expr.VerdictGoto, Chain: to} }
func drop() expr.Any          { return &expr.Verdict{Kind: expr.VerdictDrop} }

func (f *family) reject() expr.Any {
	return &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: f.unreachable}
}

func number(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// connection goes on where a field of the connection's state has one of the bits, or, with
// none, where it has none of them.
func connection(key expr.CtKey, bits uint32, none bool) []expr.Any {
	op := expr.CmpOpNeq
	if none {
		op = expr.CmpOpEq
	}
	return one(
		&expr.Ct{Register: register(0), Key: key},
		&expr.Bitwise{SourceRegister: register(0), DestRegister: register(0), Len: 4, Mask: number(bits), Xor: number(0)},
		&expr.Cmp{Op: op, Register: register(0), Data: number(0)})
}

// natDestination is the bit of a connection whose destination was rewritten.
const natDestination = 1 << 5

func stateNew() []expr.Any { return connection(expr.CtKeySTATE, expr.CtStateBitNEW, false) }

// changeMark sets the mark of the packet to itself, without the bits of clear, and with those of flip flipped.
func changeMark(clear, flip uint32) []expr.Any {
	return one(
		&expr.Meta{Key: expr.MetaKeyMARK, Register: register(0)},
		&expr.Bitwise{SourceRegister: register(0), DestRegister: register(0), Len: 4, Mask: number(^clear), Xor: number(flip)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: register(0)})
}

// ask marks a packet for masquerading.
func ask(mark uint32) []expr.Any { return changeMark(mark, mark) }

// asked goes on where a packet is marked.
func asked(mark uint32) []expr.Any {
	return one(
		&expr.Meta{Key: expr.MetaKeyMARK, Register: register(0)},
		&expr.Bitwise{SourceRegister: register(0), DestRegister: register(0), Len: 4, Mask: number(mark), Xor: number(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register(0), Data: number(0)})
}

// masquerade gives a packet this machine's address, with a source port at random: else two
// connections that start at once may be given the same.
func masquerade() expr.Any { return &expr.Masq{FullyRandom: true} }

// local goes on where an address of the packet is this machine's.
func local(source bool) []expr.Any {
	return one(
		&expr.Fib{Register: register(0), FlagSADDR: source, FlagDADDR: !source, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register(0), Data: number(unix.RTN_LOCAL)})
}

// matches goes on where the address at offset is in the prefix, or outside of it.
func (f *family) matches(offset uint32, p netip.Prefix, outside bool) []expr.Any {
	op := expr.CmpOpEq
	if outside {
		op = expr.CmpOpNeq
	}
	mask := make([]byte, f.bytes)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return one(
		f.loadAddress(offset, 0),
		&expr.Bitwise{SourceRegister: register(0), DestRegister: register(0), Len: uint32(f.bytes), Mask: mask, Xor: make([]byte, f.bytes)},
		&expr.Cmp{Op: op, Register: register(0), Data: p.Masked().Addr().AsSlice()})
}

// sourceWithin goes on where the source is in one of the prefixes, or outside of all, and then
// does the rest.
func (f *family) sourceWithin(prefixes []netip.Prefix, outside bool, then ...expr.Any) rule {
	lookup := &expr.Lookup{SourceRegister: register(0), Invert: outside}
	return rule{
		exprs:  slices.Concat(one(f.loadAddress(f.saddr, 0), lookup), then),
		ranges: &ranges{lookup: lookup, elements: intervals(prefixes)},
	}
}

// intervals writes prefixes as the kernel has ranges: the first address of each, and the first
// one after it. Prefixes that meet are one range, since the kernel refuses those that overlap.
func intervals(prefixes []netip.Prefix) []nft.SetElement {
	sorted := slices.Clone(prefixes)
	slices.SortFunc(sorted, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	var out []nft.SetElement
	var end netip.Addr // the first address after the range that is open; invalid: it ends with the last address
	for i, p := range sorted {
		after := last(p).Next()
		switch {
		case i == 0:
			out = append(out, nft.SetElement{Key: p.Addr().AsSlice()})
			end = after
		case !end.IsValid():
			return out // everything from here on is in it
		case p.Addr().Compare(end) <= 0:
			if !after.IsValid() || end.Less(after) {
				end = after
			}
		default:
			out = append(out, nft.SetElement{Key: end.AsSlice(), IntervalEnd: true}, nft.SetElement{Key: p.Addr().AsSlice()})
			end = after
		}
	}
	if len(sorted) > 0 && end.IsValid() {
		out = append(out, nft.SetElement{Key: end.AsSlice(), IntervalEnd: true})
	}
	return out
}

// last is the last address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// destination rewrites the destination to the address and the port in registers from r on.
func (f *family) destination(r int) expr.Any {
	return &expr.NAT{Type: expr.NATTypeDestNAT, Family: f.protocol, RegAddrMin: register(r), RegProtoMin: register(r + f.words())}
}

// deleteOperation takes an element out of a map; the list of x/sys ends before it.
const deleteOperation = 2

// remember changes an affinity map: the client in register source, the endpoint in registers
// from r on.
func remember(name string, operation uint32, source, r int) expr.Any {
	return &expr.Dynset{SrcRegKey: register(source), SrcRegData: register(r), SetName: name, Operation: operation}
}
