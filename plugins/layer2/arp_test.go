package layer2

import (
	"context"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/mdlayher/arp"
	"github.com/mdlayher/packet"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// cable makes a network with the two ends of a cable, of which the first has an address, and
// calls f in it.
func cable(t *testing.T, ip string, f func(near, far *net.Interface)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a network namespace")
	}
	runtime.LockOSThread() // the thread ends with the test
	ns, err := netns.New()
	if err != nil {
		t.Skipf("no network namespace can be made here: %v", err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "near"}, PeerName: "far"}))
	ends := map[string]*net.Interface{}
	for _, name := range []string{"near", "far"} {
		link, err := netlink.LinkByName(name)
		must(err)
		must(netlink.LinkSetUp(link))
		if name == "near" {
			a, err := netlink.ParseAddr(ip)
			must(err)
			must(netlink.AddrAdd(link, a))
		}
		ends[name], err = net.InterfaceByName(name)
		must(err)
	}
	awaitUp(t, "near", "far")
	f(ends["near"], ends["far"])
}

// awaitUp waits until interfaces send: what is sent before is lost.
func awaitUp(t *testing.T, names ...string) {
	t.Helper()
	tick, limit := time.NewTicker(10*time.Millisecond), time.After(2*time.Minute)
	defer tick.Stop()
	for _, name := range names {
		for {
			link, err := netlink.LinkByName(name)
			if err != nil {
				t.Fatal(err)
			}
			if link.Attrs().OperState == netlink.OperUp {
				break
			}
			select {
			case <-tick.C:
			case <-limit:
				t.Fatalf("interface %s is %s", name, link.Attrs().OperState)
			}
		}
	}
}

// TestPackets: what is sent is ARP as other machines read it; of what comes, packets that are
// malformed or of another network are left out, and those in another's name are marked.
func TestPackets(t *testing.T) {
	cable(t, "192.0.2.1/24", func(near, far *net.Interface) {
		at, err := find(netip.MustParseAddr("192.0.2.1"))
		if err != nil || at.ifi.Name != "near" || at.network.String() != "192.0.2.0/24" {
			t.Fatalf("found %+v, %v", at, err)
		}
		if _, err := find(netip.MustParseAddr("192.0.2.2")); err == nil {
			t.Error("an address that no interface has is found")
		}
		l, err := openARP(&at.ifi, at.ip)
		if err != nil {
			t.Fatal(err)
		}
		other, err := packet.Listen(far, packet.Raw, 0x0806, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		client, err := arp.New(near, other) // it reads and writes at the far end
		if err != nil {
			t.Fatal(err)
		}
		out, ended := make(chan heard, 100), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { ended <- l.read(ctx, out) }()

		ip, host := netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("192.0.2.9")
		question := heard{question: true, from: far.HardwareAddr, sender: host, target: ip}
		for what, send := range map[string]func() error{
			"probe":        func() error { return l.Probe(ip) },
			"question":     func() error { return l.Ask(ip) },
			"announcement": func() error { return l.Announce(ip) },
			"answer":       func() error { return l.Answer(ip, question) },
		} {
			if err := send(); err != nil {
				t.Fatal(err)
			}
			if err := client.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
				t.Fatal(err)
			}
			p, frame, err := client.Read()
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]arp.Packet{
				"probe":        {Operation: arp.OperationRequest, SenderIP: netip.IPv4Unspecified(), TargetIP: ip, TargetHardwareAddr: make(net.HardwareAddr, 6)},
				"question":     {Operation: arp.OperationRequest, SenderIP: at.ip, TargetIP: ip, TargetHardwareAddr: make(net.HardwareAddr, 6)},
				"announcement": {Operation: arp.OperationRequest, SenderIP: ip, TargetIP: ip, TargetHardwareAddr: make(net.HardwareAddr, 6)},
				"answer":       {Operation: arp.OperationReply, SenderIP: ip, TargetIP: host, TargetHardwareAddr: far.HardwareAddr},
			}[what]
			to := broadcast
			if what == "answer" {
				to = far.HardwareAddr
			}
			if p.Operation != want.Operation || p.SenderIP != want.SenderIP || p.TargetIP != want.TargetIP || !slices.Equal(p.TargetHardwareAddr, want.TargetHardwareAddr) ||
				!slices.Equal(p.SenderHardwareAddr, near.HardwareAddr) || !slices.Equal(frame.Destination, to) {
				t.Errorf("%s: %+v to %s, want %+v to %s", what, p, frame.Destination, want, to)
			}
		}

		good, err := arp.NewPacket(arp.OperationRequest, far.HardwareAddr, host, make(net.HardwareAddr, 6), ip)
		if err != nil {
			t.Fatal(err)
		}
		body, err := good.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		frame := func(from net.HardwareAddr, body []byte) []byte {
			return slices.Concat(broadcast, from, []byte{8, 6}, body)
		}
		changed := func(at int, value byte) []byte {
			b := slices.Clone(body)
			b[at] = value
			return b
		}
		for _, bad := range [][]byte{
			frame(far.HardwareAddr, nil), frame(far.HardwareAddr, body[:7]), frame(far.HardwareAddr, body[:27]),
			frame(far.HardwareAddr, changed(1, 6)), // not of Ethernet
			frame(far.HardwareAddr, changed(4, 0)), // lengths of addresses
			frame(far.HardwareAddr, changed(4, 255)),
			frame(far.HardwareAddr, changed(5, 16)),
			frame(far.HardwareAddr, make([]byte, 1400)),
		} {
			if _, err := other.WriteTo(bad, &packet.Addr{HardwareAddr: broadcast}); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.WriteTo(good, broadcast); err != nil {
			t.Fatal(err)
		}
		if _, err := other.WriteTo(frame(net.HardwareAddr{2, 0, 0, 0, 0, 77}, body), &packet.Addr{HardwareAddr: broadcast}); err != nil {
			t.Fatal(err)
		}
		for _, foreign := range []bool{false, true} { // the first that come out
			select {
			case got := <-out:
				if !got.question || got.foreign != foreign || got.sender != host || got.target != ip || got.from.String() != far.HardwareAddr.String() {
					t.Errorf("heard %+v, want foreign %t", got, foreign)
				}
			case <-time.After(2 * time.Minute):
				t.Error("the good packet did not come")
			}
		}
		cancel()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("reading ended by %v", err)
		}
	})
}
