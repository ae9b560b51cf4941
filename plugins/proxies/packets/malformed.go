package packets

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// malformedPackets are sent to each way to a service.
const malformedPackets = 400

// RunMalformed sends packets to a service that no honest client sends: headers that are cut off,
// lengths and sums that are wrong, all flags together, errors about packets that nobody sent. Then
// the service is answered in each protocol, and the proxy says that it is well.
func RunMalformed(t *testing.T, under Proxy) {
	n, p := begin(t, under)
	if n == nil {
		return
	}
	d := drawn{kind: "NodePort", external: "Cluster", internal: "Cluster", a: drawnEndpoint{state: ready}, b: drawnEndpoint{state: absent}}
	if err := p.Apply(t.Context(), d.diff(1, under)); err != nil {
		t.Fatal(err)
	}
	answered := func(when string) {
		t.Helper()
		for _, protocol := range protocols {
			if protocol == "SCTP" && under.NoSCTP {
				continue
			}
			for _, by := range []string{byCluster, byNodePort} {
				q := drawnQuestion{from: "pod", by: by, protocol: protocol}
				o := order{Protocol: protocol, Get: q.address()}
				a := n.order(t, q.from, o)
				for deadline := time.Now().Add(longer); a.Error != "" && time.Now().Before(deadline); {
					a = n.order(t, q.from, o) // a queue may be full for a moment
				}
				if !strings.HasPrefix(a.Text, "a ") {
					t.Errorf("%s: %s by %s: answered by %q, %s", when, protocol, by, a.Text, a.Error)
				}
			}
		}
	}
	answered("at first")
	for i, by := range []string{byCluster, byExternal, byNodePort} {
		q := drawnQuestion{from: "pod", by: by, protocol: "TCP"}
		n.hosts["pod"].must(t, order{Malformed: malformedPackets, From: n.hosts["pod"].ip, Get: q.address(), Port: i + 1})
	}
	answered("after them")
	if s := p.Status(); !s.Ready {
		t.Errorf("the proxy says %+v", s)
	}
}

// sendMalformed sends packets to an address, drawn by a seed.
func sendMalformed(count int, from, address string, seed int) error {
	source, err := netip.ParseAddr(from)
	if err != nil {
		return err
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	sockets := map[int]int{}
	for range count {
		protocol, packet := malformed(r, source, to)
		fd, open := sockets[protocol]
		if !open {
			if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol); err != nil {
				return fmt.Errorf("open a socket for protocol %d: %w", protocol, err)
			}
			defer unix.Close(fd)
			sockets[protocol] = fd
		}
		// Rules may refuse them, which the next call says.
		_ = unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: to.Addr().As4()})
	}
	return nil
}

// malformed draws a packet behind its header of IP.
func malformed(r *rand.Rand, source netip.Addr, to netip.AddrPort) (protocol int, packet []byte) {
	protocol = pick(r, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP, unix.IPPROTO_ICMP)
	packet = make([]byte, pick(r, 0, 1, 7, 8, 12, 20, 24, 60, 1000))
	for i := range packet {
		packet[i] = byte(r.Uint32())
	}
	if protocol == unix.IPPROTO_ICMP {
		if len(packet) >= 36 { // about a packet that this address would have sent
			packet[0], packet[1] = pick[byte](r, 3, 4, 5, 11, 12), byte(r.IntN(16))
			packet[8], packet[17] = 0x45, pick[byte](r, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP)
			copy(packet[20:], source.AsSlice())
			copy(packet[24:], to.Addr().AsSlice())
		}
		return protocol, summed(r, packet, 2, nil)
	}
	if len(packet) >= 4 && r.IntN(8) > 0 {
		binary.BigEndian.PutUint16(packet[2:], to.Port())
	}
	pseudo := append(append(source.AsSlice(), to.Addr().AsSlice()...), 0, byte(protocol), byte(len(packet)>>8), byte(len(packet)))
	switch {
	case protocol == unix.IPPROTO_TCP && len(packet) >= 20:
		packet[12] = pick[byte](r, 0x00, 0x40, 0x50, 0x60, 0xf0) // where its data begins
		packet[13] = pick(r, byte(r.Uint32()), 0x00, 0xff, 0x03, 0x02)
		return protocol, summed(r, packet, 16, pseudo)
	case protocol == unix.IPPROTO_UDP && len(packet) >= 8:
		binary.BigEndian.PutUint16(packet[4:], pick(r, uint16(len(packet)), 0, 7, 8, 0xffff))
		return protocol, summed(r, packet, 6, pseudo)
	}
	return protocol, packet
}

// summed puts the right sum into most packets, so that they get further than to the sum.
func summed(r *rand.Rand, packet []byte, at int, pseudo []byte) []byte {
	if len(packet) < at+2 || r.IntN(4) == 0 {
		return packet
	}
	packet[at], packet[at+1] = 0, 0
	sum := uint32(0)
	for _, part := range [][]byte{pseudo, packet} { // the first has an even length
		for i := 0; i < len(part); i += 2 {
			sum += uint32(part[i]) << 8
			if i+1 < len(part) {
				sum += uint32(part[i+1])
			}
		}
	}
	for sum>>16 > 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(packet[at:], ^uint16(sum))
	return packet
}
