package layer2

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"
)

var (
	six     = netip.MustParseAddr("2001:db8::c8")
	sixHost = netip.MustParseAddr("2001:db8::9")
	sixOwn  = netip.MustParseAddr("2001:db8::1")
)

func sourceOption(mac net.HardwareAddr) ndp.Option {
	return &ndp.LinkLayerAddress{Direction: ndp.Source, Addr: mac}
}

func targetOption(mac net.HardwareAddr) ndp.Option {
	return &ndp.LinkLayerAddress{Direction: ndp.Target, Addr: mac}
}

func groupOf(ip netip.Addr) netip.Addr {
	group, err := ndp.SolicitedNodeMulticast(ip)
	if err != nil {
		panic(err)
	}
	return group
}

func mustPack(t testing.TB, m ndp.Message, from, to netip.Addr) []byte {
	t.Helper()
	b, err := packed(m, from, to)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestParseND: what a machine says is read, and what RFC 4861 has it ignore is not.
func TestParseND(t *testing.T) {
	none := netip.IPv6Unspecified()
	question := mustPack(t, &ndp.NeighborSolicitation{TargetAddress: six, Options: []ndp.Option{sourceOption(other)}}, sixHost, groupOf(six))
	probe := mustPack(t, &ndp.NeighborSolicitation{TargetAddress: six}, none, groupOf(six))
	answer := mustPack(t, &ndp.NeighborAdvertisement{TargetAddress: six, Solicited: true, Override: true, Options: []ndp.Option{targetOption(other)}}, sixHost, sixOwn)
	changed := func(b []byte, at int, value byte) []byte {
		b = slices.Clone(b)
		b[at] = value
		// The checksum is made right, so that it is not what refuses.
		binary.BigEndian.PutUint16(b[42:], 0)
		sum := uint32(len(b)-40) + icmpv6
		for i := 8; i < len(b); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
		for sum>>16 > 0 {
			sum = sum&0xffff + sum>>16
		}
		binary.BigEndian.PutUint16(b[42:], ^uint16(sum))
		return b
	}
	wrongSum := slices.Clone(question)
	wrongSum[42] ^= 1
	for name, c := range map[string]struct {
		packet []byte
		want   string
	}{
		"question":                    {question, "question true foreign false from 02:00:00:00:00:09 sender 2001:db8::9 target 2001:db8::c8"},
		"question, padded":            {append(slices.Clone(question), 0, 0, 0), "question true foreign false from 02:00:00:00:00:09 sender 2001:db8::9 target 2001:db8::c8"},
		"probe":                       {probe, "question true foreign false from 02:00:00:00:00:09 sender :: target 2001:db8::c8"},
		"answer":                      {answer, "question false foreign false from 02:00:00:00:00:09 sender 2001:db8::c8 target ::"},
		"answer without an option":    {mustPack(t, &ndp.NeighborAdvertisement{TargetAddress: six}, sixHost, allNodes), "question false foreign false from 02:00:00:00:00:09 sender 2001:db8::c8 target ::"},
		"in another's name":           {mustPack(t, &ndp.NeighborSolicitation{TargetAddress: six, Options: []ndp.Option{sourceOption(fellow)}}, sixHost, groupOf(six)), "question true foreign true from 02:00:00:00:00:06 sender 2001:db8::9 target 2001:db8::c8"},
		"forwarded":                   {changed(question, 7, 254), ""},
		"no ICMPv6":                   {changed(question, 6, 17), ""},
		"no IPv6":                     {changed(question, 0, 0x45), ""},
		"code":                        {changed(question, 41, 1), ""},
		"of another type":             {changed(question, 40, 134), ""},
		"wrong checksum":              {wrongSum, ""},
		"target is a group":           {changed(question, 48, 0xff), ""},
		"sender is a group":           {changed(question, 8, 0xff), ""},
		"option of no length":         {changed(question, 65, 0), ""},
		"option beyond the end":       {changed(question, 65, 9), ""},
		"probe to all":                {mustPack(t, &ndp.NeighborSolicitation{TargetAddress: six}, none, allNodes), ""},
		"probe with a hardware":       {mustPack(t, &ndp.NeighborSolicitation{TargetAddress: six, Options: []ndp.Option{sourceOption(other)}}, none, groupOf(six)), ""},
		"answer to all that is asked": {mustPack(t, &ndp.NeighborAdvertisement{TargetAddress: six, Solicited: true}, sixHost, allNodes), ""},
		"answer of nobody":            {mustPack(t, &ndp.NeighborAdvertisement{TargetAddress: six}, none, allNodes), ""},
		"shorter than it says":        {question[:len(question)-1], ""},
		"a header alone":              {question[:40], ""},
		"nothing":                     {nil, ""},
		"longer than the packet says": {func() []byte { b := slices.Clone(question); b[4] = 0xff; return b }(), ""},
	} {
		h, ok := parseND(c.packet, other)
		got := fmt.Sprintf("question %t foreign %t from %s sender %s target %s", h.question, h.foreign, h.from, h.sender, h.target)
		if !ok {
			got = ""
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if _, ok := parseND(question, nil); ok {
		t.Error("a packet of nobody is read")
	}
}

// FuzzParseND: no packet of the link ends the plugin, and one that is read has all of it.
func FuzzParseND(f *testing.F) {
	f.Add(mustPack(f, &ndp.NeighborSolicitation{TargetAddress: six, Options: []ndp.Option{sourceOption(other)}}, sixHost, groupOf(six)))
	f.Add(mustPack(f, &ndp.NeighborAdvertisement{TargetAddress: six, Options: []ndp.Option{targetOption(other)}}, sixHost, allNodes))
	f.Add([]byte{0x60, 0, 0, 0, 0, 0, 58, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= ipv6Header+4 { // else nearly all are refused by their checksum
			b = slices.Clone(b)
			b[0], b[6], b[7] = 0x60, icmpv6, ndp.HopLimit
			binary.BigEndian.PutUint16(b[4:], uint16(min(len(b)-ipv6Header, longestND)))
			body := b[ipv6Header:min(len(b), ipv6Header+longestND)]
			binary.BigEndian.PutUint16(body[2:], 0)
			for sum := uint32(0); !summed(b[8:40], body) && sum < 1; sum++ {
				total := uint32(len(body)) + icmpv6
				for _, part := range [][]byte{b[8:40], body} {
					for i := range part {
						total += uint32(part[i]) << (8 * (1 - i%2))
					}
				}
				for total>>16 > 0 {
					total = total&0xffff + total>>16
				}
				binary.BigEndian.PutUint16(body[2:], ^uint16(total))
			}
		}
		h, ok := parseND(b, other)
		if ok && (len(h.from) != 6 || !h.sender.IsValid() || !h.target.IsValid() || h.sender.IsMulticast() || h.target.IsMulticast()) {
			t.Errorf("heard %+v", h)
		}
	})
}

// TestNDPackets: what is sent is NDP as other machines read it; what comes is handed over,
// and what a router passed on is not. The link is in the groups of its addresses, as long as it has
// them.
func TestNDPackets(t *testing.T) {
	cable(t, "2001:db8::1/64", func(near, far *net.Interface) {
		at, err := find(sixOwn)
		if err != nil || at.ifi.Name != "near" || at.network.String() != "2001:db8::/64" {
			t.Fatalf("found %+v, %v", at, err)
		}
		l, err := openNDP(&at.ifi, at.ip)
		if err != nil {
			t.Fatal(err)
		}
		twin := netip.MustParseAddr("2001:db8:1::c8") // in the same group
		many := netip.MustParseAddr("2001:db8::1:0")
		member := func() bool {
			t.Helper()
			raw, err := os.ReadFile("/proc/thread-self/net/igmp6")
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(string(raw), "near            ff0200000000000000000001ff0000c8")
		}
		for _, step := range []struct {
			do   func() error
			want bool
		}{
			{func() error { return nil }, false}, {func() error { return l.Join(six) }, true}, {func() error { return l.Join(twin) }, true},
			{func() error { l.Leave(twin); return nil }, true}, {func() error { l.Leave(six); l.Leave(six); return nil }, false},
			{func() error { return l.Join(six) }, true},
			{func() error {
				for i, ip := 0, many; i < 3*mostGroups; i, ip = i+1, ip.Next() {
					if err := l.Join(ip); err != nil {
						return err
					}
				}
				return nil
			}, true},
		} {
			if err := step.do(); err != nil || member() != step.want {
				t.Fatalf("a member %t, want %t: %v", member(), step.want, err)
			}
		}
		raw, err := packet.Listen(far, packet.Datagram, unix.ETH_P_IPV6, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		if err := raw.SetPromiscuous(true); err != nil {
			t.Fatal(err)
		}
		out, ended := make(chan heard, 100), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { ended <- l.read(ctx, out) }()

		question := heard{question: true, from: far.HardwareAddr, sender: sixHost, target: six}
		probe := heard{question: true, from: far.HardwareAddr, sender: netip.IPv6Unspecified(), target: six}
		group := groupOf(six)
		own := targetOption(near.HardwareAddr)
		advertisement := &ndp.NeighborAdvertisement{TargetAddress: six, Override: true, Options: []ndp.Option{own}}
		solicited := &ndp.NeighborAdvertisement{TargetAddress: six, Override: true, Solicited: true, Options: []ndp.Option{own}}
		for what, c := range map[string]struct {
			send func() error
			want []byte
		}{
			"probe":             {func() error { return l.Probe(six) }, mustPack(t, &ndp.NeighborSolicitation{TargetAddress: six}, netip.IPv6Unspecified(), group)},
			"question":          {func() error { return l.Ask(six) }, mustPack(t, &ndp.NeighborSolicitation{TargetAddress: six, Options: []ndp.Option{sourceOption(near.HardwareAddr)}}, sixOwn, group)},
			"announcement":      {func() error { return l.Announce(six) }, mustPack(t, advertisement, sixOwn, allNodes)},
			"answer":            {func() error { return l.Answer(six, question) }, mustPack(t, solicited, sixOwn, sixHost)},
			"answer to a probe": {func() error { return l.Answer(six, probe) }, mustPack(t, advertisement, sixOwn, allNodes)},
		} {
			if err := c.send(); err != nil {
				t.Fatal(err)
			}
			if err := raw.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 2000)
			for { // the kernel speaks too: of its own addresses, and of groups
				n, _, err := raw.ReadFrom(b)
				if err != nil {
					t.Fatalf("%s: no such packet came: %v", what, err)
				}
				if bytes.Equal(b[:n], c.want) {
					break
				}
			}
		}

		good := mustPack(t, &ndp.NeighborSolicitation{TargetAddress: six, Options: []ndp.Option{sourceOption(far.HardwareAddr)}}, sixHost, group)
		to := &packet.Addr{HardwareAddr: multicast(group)}
		for _, bad := range [][]byte{
			slices.Concat(good[:7], []byte{64}, good[8:]), good[:60], good[:40], good[:1], make([]byte, 1400), slices.Concat(good[:42], []byte{1, 2}, good[44:]),
		} {
			if _, err := raw.WriteTo(bad, to); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := raw.WriteTo(good, to); err != nil {
			t.Fatal(err)
		}
		for {
			var got heard
			select {
			case got = <-out:
			case <-time.After(2 * time.Minute):
				t.Fatal("the good packet did not come")
			}
			if got.target != six && got.sender != six { // the far kernel's own duplicate detection
				continue
			}
			if !got.question || got.foreign || got.sender != sixHost || got.target != six || got.from.String() != far.HardwareAddr.String() {
				t.Errorf("heard %+v", got)
			}
			break
		}
		cancel()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("reading ended by %v", err)
		}
		if member() {
			t.Error("it is still a member of the group")
		}
	})
}
