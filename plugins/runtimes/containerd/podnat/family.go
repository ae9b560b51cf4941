package podnat

import (
	"encoding/binary"
	"net/netip"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/conntrack"
)

// protocols are the numbers of the protocols that host ports may have.
var protocols = map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "sctp": unix.IPPROTO_SCTP}

// family is what differs between IPv4 and IPv6.
type family struct {
	name         string
	table        nft.TableFamily
	address      nft.SetDatatype
	bytes        int // of an address
	saddr, daddr uint32
	protocol     uint32 // as rules name the family
	conntrack    conntrack.Family
	loopback     netip.Prefix
	multicast    netip.Prefix
}

var (
	ipv4 = &family{
		name: "IPv4", table: nft.TableFamilyIPv4, address: nft.TypeIPAddr, bytes: 4, saddr: 12, daddr: 16,
		protocol: unix.NFPROTO_IPV4, conntrack: conntrack.IPv4,
		loopback: netip.MustParsePrefix("127.0.0.0/8"), multicast: netip.MustParsePrefix("224.0.0.0/4"),
	}
	ipv6 = &family{
		name: "IPv6", table: nft.TableFamilyIPv6, address: nft.TypeIP6Addr, bytes: 16, saddr: 8, daddr: 24,
		protocol: unix.NFPROTO_IPV6, conntrack: conntrack.IPv6,
		loopback: netip.MustParsePrefix("::1/128"), multicast: netip.MustParsePrefix("ff00::/8"),
	}
	families = []*family{ipv4, ipv6}
)

func (f *family) has(a netip.Addr) bool { return a.IsValid() && a.Is4() == (f == ipv4) }

// words is how many registers an address takes.
func (f *family) words() int { return f.bytes / 4 }

// Keys and values are written as the kernel has them in registers of four bytes: addresses
// and ports as on the wire.

func appendProtocol(b []byte, protocol byte) []byte { return append(b, protocol, 0, 0, 0) }
func appendPort(b []byte, port uint16) []byte       { return append(b, byte(port>>8), byte(port), 0, 0) }

// register names one of the sixteen registers of four bytes.
func register(i int) uint32 { return unix.NFT_REG32_00 + uint32(i) }

func number(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func one(list ...expr.Any) []expr.Any { return list }

func (f *family) loadAddress(offset uint32, r int) expr.Any {
	return &expr.Payload{DestRegister: register(r), Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(f.bytes)}
}

// loadPort loads the protocol and the destination port, which TCP, UDP and SCTP have at one
// place, into two registers.
func loadPort(r int) []expr.Any {
	return one(
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register(r)},
		&expr.Payload{DestRegister: register(r + 1), Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2})
}

// within goes on where the address at offset is in the prefix, or with outside, where not.
func (f *family) within(offset uint32, p netip.Prefix, outside bool) []expr.Any {
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

// toMachine goes on where the destination is this machine's address.
func toMachine() []expr.Any {
	return one(
		&expr.Fib{Register: register(0), FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register(0), Data: number(unix.RTN_LOCAL)})
}

// changeMark sets the mark of the packet to itself, without the bits of clear, and with those
// of flip flipped.
func changeMark(clear, flip uint32) []expr.Any {
	return one(
		&expr.Meta{Key: expr.MetaKeyMARK, Register: register(0)},
		&expr.Bitwise{SourceRegister: register(0), DestRegister: register(0), Len: 4, Mask: number(^clear), Xor: number(flip)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: register(0)})
}

// marked goes on where a packet has the mark.
func marked(mark uint32) []expr.Any {
	return one(
		&expr.Meta{Key: expr.MetaKeyMARK, Register: register(0)},
		&expr.Bitwise{SourceRegister: register(0), DestRegister: register(0), Len: 4, Mask: number(mark), Xor: number(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register(0), Data: number(0)})
}

// masquerade gives a packet this machine's address, with a source port at random: else two
// connections that start at once may be given the same.
func masquerade() expr.Any { return &expr.Masq{FullyRandom: true} }

// shortNumber is a number of two bytes as a register of the kernel has it.
func shortNumber(n uint16) []byte { return binary.NativeEndian.AppendUint16(nil, n) }
