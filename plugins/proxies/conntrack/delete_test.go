package conntrack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// alone moves the test's thread into a network namespace of its own, which ends with it.
func alone(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a network namespace")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("network namespaces are not available: %v", err)
	}
}

// track puts a UDP flow into the kernel's table.
func track(t *testing.T, from, to netip.AddrPort) {
	t.Helper()
	family := netlink.InetFamily(unix.AF_INET)
	if from.Addr().Is6() {
		family = unix.AF_INET6
	}
	tuple := func(from, to netip.AddrPort) netlink.IPTuple {
		return netlink.IPTuple{Protocol: unix.IPPROTO_UDP, SrcIP: from.Addr().AsSlice(), SrcPort: from.Port(), DstIP: to.Addr().AsSlice(), DstPort: to.Port()}
	}
	err := netlink.ConntrackCreate(netlink.ConntrackTable, family, &netlink.ConntrackFlow{
		FamilyType: uint8(family), TimeOut: 600, Forward: tuple(from, to), Reverse: tuple(to, from),
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		t.Skipf("this kernel tracks no flows that are asked for: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDelete: what matches goes, of one family, though it is more than one portion; all else
// stays.
func TestDelete(t *testing.T) {
	alone(t)
	const count = portion + 500
	for i := range count {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 4000)
		track(t, from, netip.MustParseAddrPort("10.96.0.10:53"))
	}
	track(t, netip.MustParseAddrPort("10.2.0.1:4000"), netip.MustParseAddrPort("10.96.0.10:53"))
	track(t, netip.MustParseAddrPort("[fd00::1]:4000"), netip.MustParseAddrPort("[fd00::2]:53"))
	ten := netip.MustParsePrefix("10.1.0.0/16")
	var other Flow
	deleted, err := Delete(IPv4, func(f Flow) bool {
		if !ten.Contains(f.Original.Source.Addr()) {
			other = f
			return false
		}
		return true
	})
	if err != nil || deleted != count {
		t.Errorf("deleted %d of %d flows: %v", deleted, count, err)
	}
	want := Tuple{netip.MustParseAddrPort("10.2.0.1:4000"), netip.MustParseAddrPort("10.96.0.10:53")}
	if other.Protocol != unix.IPPROTO_UDP || other.Original != want || other.Reply != (Tuple{want.Destination, want.Source}) {
		t.Errorf("the other flow is %+v", other)
	}
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for family, left := range map[Family]int{IPv4: 1, IPv6: 1} {
		if list, _, err := s.matching(family, func(Flow) bool { return true }); err != nil || len(list) != left {
			t.Errorf("family %d: %d flows are left, %v", family, len(list), err)
		}
	}
	if deleted, err := Delete(IPv6, func(f Flow) bool { return f.Original.Source.Addr() == netip.MustParseAddr("fd00::1") }); err != nil || deleted != 1 {
		t.Errorf("of IPv6 %d are deleted, %v", deleted, err)
	}
}

// FuzzParse: no message makes it read beyond its end.
func FuzzParse(f *testing.F) {
	attribute := func(kind uint16, data []byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(data)))
		b = append(binary.NativeEndian.AppendUint16(b, kind), data...)
		return append(b, make([]byte, -len(b)&3)...)
	}
	ip := attribute(0x8001, bytes.Join([][]byte{attribute(1, []byte{10, 0, 0, 1}), attribute(2, []byte{10, 0, 0, 2})}, nil))
	proto := attribute(0x8002, bytes.Join([][]byte{attribute(1, []byte{17}), attribute(2, []byte{0, 53}), attribute(3, []byte{1, 0})}, nil))
	whole := append([]byte{2, 0, 0, 0}, bytes.Join([][]byte{attribute(0x8001, append(ip, proto...)), attribute(0x8002, append(ip, proto...))}, nil)...)
	flow, ok := parse(whole)
	if want := (Tuple{netip.MustParseAddrPort("10.0.0.1:53"), netip.MustParseAddrPort("10.0.0.2:256")}); !ok || flow.Protocol != 17 || flow.Original != want || flow.Reply != want {
		f.Fatalf("%+v, %t", flow, ok)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add([]byte{2, 0, 0, 0, 3, 0, 1, 0, 255, 255, 1, 0})
	f.Fuzz(func(t *testing.T, message []byte) {
		if flow, ok := parse(message); ok && !flow.Original.Source.IsValid() {
			t.Errorf("%+v", flow)
		}
	})
}
