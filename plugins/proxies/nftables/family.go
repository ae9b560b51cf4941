package nftables

import (
	"encoding/binary"
	"net/netip"

	nft "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	"pintle.dev/pintle/plugins/proxies/serviceport"
)

// tableName is the name of our table in each family.
const tableName = "pintle-proxy"

// family is what differs between IPv4 and IPv6.
type family struct {
	name         string
	of           serviceport.Family
	table        *nft.Table
	address      nft.SetDatatype
	bytes        int // of an address
	saddr, daddr uint32
	protocol     uint32 // as rules name the family
	conntrack    conntrack.Family
	unreachable  uint8 // the code of ICMP by which a port is refused
	localhost    netip.Prefix
}

var (
	ipv4 = &family{
		name: "IPv4", of: serviceport.IPv4, table: &nft.Table{Name: tableName, Family: nft.TableFamilyIPv4},
		address: nft.TypeIPAddr, bytes: 4, saddr: 12, daddr: 16, protocol: unix.NFPROTO_IPV4, conntrack: conntrack.IPv4,
		unreachable: 3, localhost: netip.MustParsePrefix("127.0.0.0/8"),
	}
	ipv6 = &family{
		name: "IPv6", of: serviceport.IPv6, table: &nft.Table{Name: tableName, Family: nft.TableFamilyIPv6},
		address: nft.TypeIP6Addr, bytes: 16, saddr: 8, daddr: 24, protocol: unix.NFPROTO_IPV6, conntrack: conntrack.IPv6,
		unreachable: 4, localhost: netip.MustParsePrefix("::1/128"),
	}
)

// words is how many registers an address takes.
func (f *family) words() int { return f.bytes / 4 }

// parse reads an address of this family; any other text is none.
func (f *family) parse(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	a = a.Unmap()
	return a, a.Is4() == (f.bytes == 4)
}

// prefixes reads the ranges of this family among texts.
func (f *family) prefixes(texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is4() == (f.bytes == 4) {
			out = append(out, p.Masked())
		}
	}
	return out
}

// protocols are the numbers of the protocols that services may have.
var protocols = map[string]byte{"TCP": unix.IPPROTO_TCP, "UDP": unix.IPPROTO_UDP, "SCTP": unix.IPPROTO_SCTP}

// portNumber is a port that packets can have.
func portNumber(n int) (uint16, bool) { return uint16(n), n > 0 && n < 1<<16 }

// Keys and values are written as the kernel has them in registers of four bytes: addresses
// and ports as on the wire, numbers as the processor has them.

func appendProtocol(b []byte, protocol byte) []byte { return append(b, protocol, 0, 0, 0) }
func appendPort(b []byte, port uint16) []byte       { return append(b, byte(port>>8), byte(port), 0, 0) }
func appendNumber(b []byte, n uint32) []byte        { return binary.NativeEndian.AppendUint32(b, n) }

// front is the key of an address with a protocol and a port; a cluster IP's front is also
// by what a service's port is known in other maps.
func front(address netip.Addr, protocol byte, port uint16) []byte {
	b := make([]byte, 0, 32)
	return appendPort(appendProtocol(append(b, address.AsSlice()...), protocol), port)
}

// nodePort is the key of a node port.
func nodePort(protocol byte, port uint16) []byte {
	return appendPort(appendProtocol(make([]byte, 0, 8), protocol), port)
}

// target is the value by which packets are sent to an endpoint.
func target(a netip.AddrPort) []byte {
	return appendPort(append(make([]byte, 0, 24), a.Addr().AsSlice()...), a.Port())
}
