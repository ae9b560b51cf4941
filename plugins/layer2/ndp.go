package layer2

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/mdlayher/ndp"
	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	ipv6Header = 40
	icmpv6     = 58
	// neighborSolicitation and neighborAdvertisement are types of ICMPv6.
	neighborSolicitation, neighborAdvertisement = 135, 136
	// longestND is how long a packet may be that is looked at. What machines send has one
	// option or two, and less than 100 bytes.
	longestND = 1500
)

var allNodes = netip.MustParseAddr("ff02::1")

// ndpLink is a link with the packets of NDP, IPv6's neighbor discovery (RFC 4861). Its socket
// is one for packets: the kernel has none of the addresses, and would send no probe for them.
type ndpLink struct {
	conn   *packet.Conn
	groups *groups
	own    net.HardwareAddr
	ip     netip.Addr // of this machine
}

// ndFilter leaves of IPv6 what may be a question or an answer about a neighbor. A packet that
// a router passed on has a lower hop limit than 255.
var ndFilter = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 6, Size: 1}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: icmpv6, SkipTrue: 6},
	bpf.LoadAbsolute{Off: 7, Size: 1}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: ndp.HopLimit, SkipTrue: 4},
	bpf.LoadAbsolute{Off: ipv6Header, Size: 1}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: neighborSolicitation, SkipTrue: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: neighborAdvertisement, SkipTrue: 1},
	bpf.RetConstant{Val: longestND},
	bpf.RetConstant{Val: 0},
}

// openNDP opens a socket for NDP alone on an interface of the type Ethernet.
func openNDP(ifi *net.Interface, ip netip.Addr) (*ndpLink, error) {
	filter, err := bpf.Assemble(ndFilter)
	if err != nil {
		return nil, fmt.Errorf("filter of NDP: %w", err)
	}
	conn, err := packet.Listen(ifi, packet.Datagram, unix.ETH_P_IPV6, &packet.Config{Filter: filter})
	if err != nil {
		return nil, fmt.Errorf("open a packet socket for NDP on %s: %w", ifi.Name, err)
	}
	return &ndpLink{conn: conn, groups: newGroups(ifi), own: ifi.HardwareAddr, ip: ip}, nil
}

// Join implements link: questions reach those alone that are in the group of the address.
func (l *ndpLink) Join(ip netip.Addr) error { return l.groups.join(ip) }

// Leave implements link.
func (l *ndpLink) Leave(ip netip.Addr) { l.groups.leave(ip) }

// multicast is the hardware address of a group (RFC 2464).
func multicast(group netip.Addr) net.HardwareAddr {
	b := group.As16()
	return net.HardwareAddr{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

func (l *ndpLink) send(m ndp.Message, from, to netip.Addr, hardware net.HardwareAddr) error {
	b, err := packed(m, from, to)
	if err != nil {
		return err
	}
	_, err = l.conn.WriteTo(b, &packet.Addr{HardwareAddr: hardware})
	return err
}

// packed is a packet of IPv6 with a message.
func packed(m ndp.Message, from, to netip.Addr) ([]byte, error) {
	body, err := ndp.MarshalMessageChecksum(m, from, to)
	if err != nil {
		return nil, err
	}
	b := make([]byte, ipv6Header, ipv6Header+len(body))
	b[0], b[6], b[7] = 6<<4, icmpv6, ndp.HopLimit
	binary.BigEndian.PutUint16(b[4:], uint16(len(body)))
	copy(b[8:], from.AsSlice())
	copy(b[24:], to.AsSlice())
	return append(b, body...), nil
}

// solicit asks the group of an address who has it.
func (l *ndpLink) solicit(ip, from netip.Addr, options ...ndp.Option) error {
	group, err := ndp.SolicitedNodeMulticast(ip)
	if err != nil {
		return err
	}
	return l.send(&ndp.NeighborSolicitation{TargetAddress: ip, Options: options}, from, group, multicast(group))
}

// Probe implements link, as RFC 4862 detects duplicates.
func (l *ndpLink) Probe(ip netip.Addr) error { return l.solicit(ip, netip.IPv6Unspecified()) }

// Ask implements link.
func (l *ndpLink) Ask(ip netip.Addr) error {
	return l.solicit(ip, l.ip, &ndp.LinkLayerAddress{Direction: ndp.Source, Addr: l.own})
}

// advertise says that this machine has an address. Who knew another hardware address for it
// takes this one (override).
func (l *ndpLink) advertise(ip, to netip.Addr, hardware net.HardwareAddr, solicited bool) error {
	return l.send(&ndp.NeighborAdvertisement{
		TargetAddress: ip, Override: true, Solicited: solicited,
		Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: l.own}},
	}, l.ip, to, hardware)
}

// Announce implements link.
func (l *ndpLink) Announce(ip netip.Addr) error {
	return l.advertise(ip, allNodes, multicast(allNodes), false)
}

// Answer implements link. One that probes has no address yet, and hears what all hear.
func (l *ndpLink) Answer(ip netip.Addr, q heard) error {
	if q.sender.IsUnspecified() {
		return l.Announce(ip)
	}
	return l.advertise(ip, q.sender, q.from, true)
}

// read hands packets over until ctx ends and the socket is closed, or until that fails.
func (l *ndpLink) read(ctx context.Context, out chan<- heard) error {
	b := make([]byte, longestND)
	for {
		n, from, err := l.conn.ReadFrom(b)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read NDP packets: %w", err)
		}
		at, ok := from.(*packet.Addr)
		if !ok {
			continue
		}
		h, ok := parseND(b[:n], at.HardwareAddr)
		if !ok {
			continue
		}
		select {
		case out <- h:
		case <-ctx.Done():
			return nil
		}
	}
}

func (l *ndpLink) Close() error { return errors.Join(l.groups.close(), l.conn.Close()) }

// parseND reads a packet of IPv6 that a hardware address sent. It is false for what RFC 4861
// has a machine ignore (7.1.1, 7.1.2), and for all other packets.
func parseND(b []byte, source net.HardwareAddr) (heard, bool) {
	if len(b) < ipv6Header || b[0]>>4 != 6 || b[6] != icmpv6 || b[7] != ndp.HopLimit || len(source) != 6 {
		return heard{}, false
	}
	body := b[ipv6Header:]
	length := int(binary.BigEndian.Uint16(b[4:]))
	if length > len(body) { // of frames, the end may be padding
		return heard{}, false
	}
	body = body[:length]
	from, to := netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	if len(body) < 4 || body[1] != 0 || !summed(b[8:40], body) || from.IsMulticast() {
		return heard{}, false
	}
	m, err := ndp.ParseMessage(body)
	if err != nil {
		return heard{}, false
	}
	switch m := m.(type) {
	case *ndp.NeighborSolicitation:
		mac, named := hardwareOf(m.Options, ndp.Source)
		if from.IsUnspecified() {
			group, err := ndp.SolicitedNodeMulticast(m.TargetAddress)
			if err != nil || to != group || named {
				return heard{}, false
			}
		}
		return heardOf(true, from, m.TargetAddress, mac, source), !m.TargetAddress.IsMulticast()
	case *ndp.NeighborAdvertisement:
		mac, _ := hardwareOf(m.Options, ndp.Target)
		wrong := from.IsUnspecified() || m.TargetAddress.IsMulticast() || m.Solicited && to.IsMulticast()
		return heardOf(false, m.TargetAddress, netip.IPv6Unspecified(), mac, source), !wrong
	}
	return heard{}, false
}

// heardOf is what a message says, by the hardware address that it names or else that sent it.
func heardOf(question bool, sender, target netip.Addr, named, source net.HardwareAddr) heard {
	h := heard{question: question, from: named, sender: sender, target: target}
	if named == nil {
		h.from = append(net.HardwareAddr(nil), source...)
	}
	h.foreign = string(h.from) != string(source)
	return h
}

// hardwareOf is the first hardware address among options.
func hardwareOf(options []ndp.Option, d ndp.Direction) (net.HardwareAddr, bool) {
	for _, o := range options {
		if lla, ok := o.(*ndp.LinkLayerAddress); ok && lla.Direction == d && len(lla.Addr) == 6 {
			return append(net.HardwareAddr(nil), lla.Addr...), true
		}
	}
	return nil, false
}

// summed tells whether the checksum of ICMPv6 is right: that over the addresses of the packet,
// its length, its protocol and the message is all ones then.
func summed(addresses, body []byte) bool {
	sum := uint32(len(body)) + icmpv6
	for _, part := range [][]byte{addresses, body} {
		for i := 0; i+1 < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
		if len(part)%2 == 1 {
			sum += uint32(part[len(part)-1]) << 8
		}
	}
	for sum>>16 > 0 {
		sum = sum&0xffff + sum>>16
	}
	return sum == 0xffff
}
