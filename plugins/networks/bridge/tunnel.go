package bridge

import (
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/sdk/network"
)

// tunnelName is the interface's.
const tunnelName = "pintle-vxlan"

// What VXLAN puts before a packet, in bytes: Ethernet, VXLAN, UDP, and IP of the family of nodes.
const overhead4, overhead6 = 50, 70

func (l *linux) overhead() int {
	switch {
	case l.cfg.Backend == WireGuard && l.options.outer4():
		return secureOverhead4
	case l.cfg.Backend == WireGuard:
		return secureOverhead6
	}
	if l.options.outer4() {
		return overhead4
	}
	return overhead6
}

// hardware is the address of a node's end of the tunnel. Each node knows it by the node's first range, so
// that no node has to ask another.
func hardware(to netip.Prefix) net.HardwareAddr {
	a := net.HardwareAddr{0x0a, 0x58, 0, 0, 0, 0}
	if to.Addr().Is4() {
		b := to.Addr().As4()
		copy(a[2:], b[:])
		return a
	}
	h := fnv.New32a()
	_, _ = h.Write(to.Addr().AsSlice()) // a hash takes everything
	h.Sum(a[:2])
	return a
}

// tunnel makes the interface, the table that guards it and its neighbours, and returns its index.
// Without nodes behind a router there is none. It is up, and so takes packets, only with the table.
// Refused is a node whose neighbour the kernel refuses.
func (l *linux) tunnel(far []hop) (index int, refused []*network.Refusal, _ error) {
	if len(far) == 0 {
		if err := l.removeTunnel(); err != nil {
			return 0, nil, err
		}
		return 0, nil, l.table(nil)
	}
	link, err := l.tunnelLink()
	if err != nil {
		return 0, nil, fmt.Errorf("tunnel to nodes behind a router: %w", err)
	}
	if err := l.table(far); err != nil {
		return 0, nil, errors.Join(err, l.removeTunnel())
	}
	if err := l.handle.LinkSetUp(link); err != nil {
		return 0, nil, fmt.Errorf("set interface %s up: %w", tunnelName, err)
	}
	index = link.Attrs().Index
	// The first address of the range is none of a pod's. By it the machine itself reaches
	// pods through the tunnel, and answers come back the same way.
	for _, own := range l.options.own {
		a := netip.PrefixFrom(own.Addr(), own.Addr().BitLen())
		address := &netlink.Addr{IPNet: netOf(a)}
		if a.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD // nobody else is asked whether it has it
		}
		if err := l.handle.AddrReplace(link, address); err != nil {
			return 0, nil, fmt.Errorf("address %s of interface %s: %w", a, tunnelName, err)
		}
	}
	refused, err = l.neighbours(index, far)
	if err != nil {
		return 0, nil, err
	}
	more, err := l.forwarding(index, far)
	return index, append(refused, more...), err
}

// tunnelLink is the interface as it should be; one that is another is made anew, and is down.
func (l *linux) tunnelLink() (netlink.Link, error) {
	up, err := l.uplink()
	if err != nil {
		return nil, err
	}
	if up == nil {
		return nil, fmt.Errorf("no interface has the node's address %s, from which it sends; set node.address", l.options.node[0])
	}
	want := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: tunnelName, MTU: up.Attrs().MTU - l.overhead(), HardwareAddr: hardware(l.options.own[0])},
		VxlanId:   l.cfg.VNI, Port: l.cfg.Port, SrcAddr: l.options.node[0].AsSlice(), VtepDevIndex: up.Attrs().Index,
	}
	link, err := l.handle.LinkByName(tunnelName)
	var none netlink.LinkNotFoundError
	switch {
	case errors.As(err, &none):
	case err != nil:
		return nil, err
	default:
		if have, ok := link.(*netlink.Vxlan); ok && have.VxlanId == want.VxlanId && have.Port == want.Port && have.SrcAddr.Equal(want.SrcAddr) &&
			have.VtepDevIndex == want.VtepDevIndex && have.HardwareAddr.String() == want.HardwareAddr.String() && have.MTU == want.MTU && !have.Learning {
			return link, nil
		}
		if err := l.handle.LinkDel(link); err != nil {
			return nil, fmt.Errorf("delete interface %s, to make it anew: %w", tunnelName, err)
		}
	}
	if err := l.handle.LinkAdd(want); err != nil {
		return nil, fmt.Errorf("make interface %s of type vxlan: %w", tunnelName, err)
	}
	return l.handle.LinkByName(tunnelName)
}

func (l *linux) removeTunnel() error { return l.removeLink(tunnelName) }

// removeLink deletes an interface of the plugin, if it is there.
func (l *linux) removeLink(name string) error {
	link, err := l.handle.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil
	}
	if err == nil {
		err = l.handle.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("delete interface %s: %w", name, err)
	}
	return nil
}

// neighbours says which hardware address each range's end of the tunnel has.
func (l *linux) neighbours(index int, far []hop) ([]*network.Refusal, error) {
	want := map[netip.Addr]neighbour{}
	for _, h := range far {
		a := h.to.Addr()
		want[a] = neighbour{h, &netlink.Neigh{LinkIndex: index, Family: family(a), State: netlink.NUD_PERMANENT, Type: unix.RTN_UNICAST, IP: a.AsSlice(), HardwareAddr: hardware(h.end)}}
	}
	return l.entries(index, []int{netlink.FAMILY_V4, netlink.FAMILY_V6}, func(have *netlink.Neigh) bool {
		a, _ := netip.AddrFromSlice(have.IP)
		w, wanted := want[a.Unmap()]
		if wanted && have.State&netlink.NUD_PERMANENT != 0 && w.HardwareAddr.String() == have.HardwareAddr.String() {
			delete(want, a.Unmap())
		}
		return wanted
	}, maps.Values(want))
}

// forwarding says at which node each hardware address is.
func (l *linux) forwarding(index int, far []hop) ([]*network.Refusal, error) {
	want := map[string]neighbour{}
	for _, h := range far {
		mac := hardware(h.end)
		want[mac.String()] = neighbour{h, &netlink.Neigh{LinkIndex: index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, State: netlink.NUD_PERMANENT, IP: h.far.AsSlice(), HardwareAddr: mac}}
	}
	return l.entries(index, []int{unix.AF_BRIDGE}, func(have *netlink.Neigh) bool {
		w, wanted := want[have.HardwareAddr.String()]
		if !wanted || !w.IP.Equal(have.IP) {
			return false // one address may have several entries: the wrong one goes
		}
		delete(want, have.HardwareAddr.String())
		return true
	}, maps.Values(want))
}

// neighbour is an entry of the tunnel's interface that leads to a hop.
type neighbour struct {
	hop
	*netlink.Neigh
}

// entries deletes the permanent entries of the tunnel's interface that are not wanted, and sets
// those that are missing, which keep has left out.
func (l *linux) entries(index int, families []int, keep func(*netlink.Neigh) bool, missing iter.Seq[neighbour]) (refused []*network.Refusal, _ error) {
	var errs []error
	for _, f := range families {
		list, err := l.handle.NeighList(index, f)
		if err := whole(err); err != nil {
			return nil, fmt.Errorf("list neighbours of interface %s: %w", tunnelName, err)
		}
		for i := range list {
			have := &list[i]
			if have.State&netlink.NUD_PERMANENT == 0 || len(have.HardwareAddr) == 0 || keep(have) {
				continue
			}
			if have.IP != nil && have.IP.IsMulticast() {
				continue
			}
			if err := l.handle.NeighDel(have); err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("delete neighbour %s of interface %s: %w", have.HardwareAddr, tunnelName, err))
			}
		}
	}
	for w := range missing {
		if err := l.handle.NeighSet(w.Neigh); err != nil {
			refused = append(refused, refuse([]hop{w.hop}, fmt.Errorf("set neighbour %s at %s of interface %s: %w", w.HardwareAddr, w.IP, tunnelName, err))...)
		}
	}
	return refused, errors.Join(errs...)
}
