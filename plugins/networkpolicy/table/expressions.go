package table

import (
	"net/netip"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

// first is the register that single values are put into. The kernel has it as four words
// of 32 bits too, which are word(0) to word(3).
const first = unix.NFT_REG_1

// word is the register of the n-th 32 bits.
func word(n uint32) uint32 { return unix.NFT_REG32_00 + n }

// Places of addresses in the header of a packet, in bytes.
const (
	source4, destination4 = 12, 16
	source6, destination6 = 8, 24
)

// ICMPv6 types by which neighbours and routers are found, and groups that one listens to.
const (
	listenerQuery   = 130
	listenerReport2 = 143
)

func compare(op expr.CmpOp, value ...byte) *expr.Cmp {
	return &expr.Cmp{Op: op, Register: first, Data: value}
}

func verdict(kind expr.VerdictKind, chain string) *expr.Verdict {
	return &expr.Verdict{Kind: kind, Chain: chain}
}

// size is how many bytes an address has.
func size(family program.Family) uint32 {
	if family == program.IP6 {
		return 16
	}
	return 4
}

// loadAddress puts the address of the source or destination into a register.
func loadAddress(family program.Family, source bool, register uint32) expr.Any {
	offset := uint32(destination4)
	switch {
	case family == program.IP6 && source:
		offset = source6
	case family == program.IP6:
		offset = destination6
	case source:
		offset = source4
	}
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size(family)}
}

func lookup(set string) expr.Any { return &expr.Lookup{SourceRegister: first, SetName: set} }

func ofFamily(family program.Family) []expr.Any {
	number := byte(unix.NFPROTO_IPV4)
	if family == program.IP6 {
		number = unix.NFPROTO_IPV6
	}
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: first}, compare(expr.CmpOpEq, number)}
}

// loadPort puts the destination port, which TCP, UDP and SCTP have in one place, into a register.
func loadPort(register uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

// expressions are what the kernel runs for a rule of a chain.
func expressions(chain string, r *program.Rule) []expr.Any {
	out := []expr.Any{}
	switch r.Match {
	case program.Established:
		out = append(out, established()...)
	case program.Neighbours:
		return append(out, neighbours()...)
	}
	if r.Family != program.Any {
		out = append(out, ofFamily(r.Family)...)
	}
	if r.Protocol != 0 {
		out = append(out, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: first}, compare(expr.CmpOpEq, r.Protocol))
	}
	switch {
	case r.High == 0:
	case r.Low == r.High:
		out = append(out, loadPort(first), compare(expr.CmpOpEq, byte(r.Low>>8), byte(r.Low)))
	default:
		out = append(out, loadPort(first), compare(expr.CmpOpGte, byte(r.Low>>8), byte(r.Low)), compare(expr.CmpOpLte, byte(r.High>>8), byte(r.High)))
	}
	if r.Bridge != "" {
		out = append(out, interfaceIs(expr.MetaKeyIIFNAME, r.Bridge)...)
		out = append(out, interfaceIs(expr.MetaKeyOIFNAME, r.Bridge)...)
	}
	outwards := chain == program.Egress
	if r.From.IsValid() {
		out = append(out, within(r.Family, true, r.From)...)
	}
	if r.To.IsValid() {
		out = append(out, within(r.Family, false, r.To)...)
	}
	if r.Within.IsValid() {
		out = append(out, within(r.Family, outwards, r.Within)...)
	}
	if r.Unless != "" {
		out = append(out, loadAddress(r.Family, outwards, first), &expr.Lookup{SourceRegister: first, SetName: r.Unless, Invert: true})
	}
	if r.Source != "" {
		out = append(out, loadAddress(r.Family, true, first), lookup(r.Source))
	}
	if r.Destination != "" {
		out = append(out, loadAddress(r.Family, false, first), lookup(r.Destination))
	}
	words := size(r.Family) / 4
	if r.Pair != "" {
		out = append(out, loadAddress(r.Family, true, word(0)), loadAddress(r.Family, false, word(words)), lookup(r.Pair))
	}
	if r.Socket != "" {
		out = append(out, loadAddress(r.Family, false, word(0)),
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: word(words)}, loadPort(word(words+1)), lookup(r.Socket))
	}
	switch r.Verdict {
	case program.Accept:
		out = append(out, verdict(expr.VerdictAccept, ""))
	case program.Drop:
		out = append(out, verdict(expr.VerdictDrop, ""))
	case program.Jump:
		out = append(out, verdict(expr.VerdictJump, r.Target))
	case program.Look:
		out = append(out, loadAddress(r.Family, outwards, first), &expr.Lookup{SourceRegister: first, SetName: r.Target, IsDestRegSet: true, DestRegister: unix.NFT_REG_VERDICT})
	}
	return out
}

// interfaceIs asks for the name of the interface that a packet came by or leaves by. Of a
// packet between two ports of a bridge both are the bridge.
func interfaceIs(key expr.MetaKey, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: first}, compare(expr.CmpOpEq, padded...)}
}

func within(family program.Family, source bool, r netip.Prefix) []expr.Any {
	return []expr.Any{loadAddress(family, source, first), masked(r), compare(expr.CmpOpEq, r.Addr().AsSlice()...)}
}

// masked leaves of the address in the register what a range has of it.
func masked(r netip.Prefix) expr.Any {
	length := r.Addr().BitLen() / 8
	mask := make([]byte, length)
	for bit := range r.Bits() {
		mask[bit/8] |= 0x80 >> (bit % 8)
	}
	return &expr.Bitwise{SourceRegister: first, DestRegister: first, Len: uint32(length), Mask: mask, Xor: make([]byte, length)}
}

func established() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: first},
		&expr.Bitwise{SourceRegister: first, DestRegister: first, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED), Xor: make([]byte, 4)},
		compare(expr.CmpOpNeq, 0, 0, 0, 0),
	}
}

// neighbours accepts what IPv6 cannot work without on a bridge: one rule for types 130 to
// 143, of which those between are of routers and groups, too.
func neighbours() []expr.Any {
	return append(ofFamily(program.IP6),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: first}, compare(expr.CmpOpEq, unix.IPPROTO_ICMPV6),
		&expr.Payload{DestRegister: first, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
		compare(expr.CmpOpGte, listenerQuery), compare(expr.CmpOpLte, listenerReport2),
		verdict(expr.VerdictAccept, ""))
}
