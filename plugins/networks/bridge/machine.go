package bridge

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/sdk/network"
)

// protocol marks the routes that are the plugin's.
const protocol netlink.RouteProtocol = 90

// linux is the machine's network, by netlink.
type linux struct {
	cfg     Config
	options options
	handle  *netlink.Handle
	space   int    // descriptor of the network namespace; 0: the process's own
	proc    string // the kernel's switches
	secure  secure // of the backend wireguard
	// undo takes back what a start made, for one that fails later.
	undo []func() error
}

func openLinux(cfg Config, o options) (*linux, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open the kernel's routes: %w", err)
	}
	return &linux{cfg: cfg, options: o, handle: handle, proc: "/proc/sys"}, nil
}

func (l *linux) close() { l.handle.Close() }

// takeBack undoes what a start that failed made, the last first. What an earlier run left stays.
func (l *linux) takeBack() error {
	var errs []error
	for _, f := range slices.Backward(l.undo) {
		errs = append(errs, f())
	}
	l.undo = nil
	return errors.Join(errs...)
}

// whole takes a listing that the kernel says others changed meanwhile as it is: each check
// lists again.
func whole(err error) error {
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil
	}
	return err
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	bits, size := n.Mask.Size()
	if a = a.Unmap(); !ok || size == 0 || size != a.BitLen() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, bits), true
}

func netOf(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// networks are those that the machine is part of or has routes to, but for its pods' bridge,
// loopback, the default routes and what the plugin made.
func (l *linux) networks() ([]taken, error) {
	links, err := l.handle.LinkList()
	if err := whole(err); err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var out []taken
	names, pods := map[int]string{}, map[int]bool{}
	for _, link := range links {
		names[link.Attrs().Index] = link.Attrs().Name
		if link.Attrs().Name == tunnelName || link.Attrs().Name == secureName || link.Attrs().Flags&net.FlagLoopback != 0 {
			pods[link.Attrs().Index] = true
			continue
		}
		addresses, err := l.handle.AddrList(link, netlink.FAMILY_ALL)
		if err := whole(err); err != nil {
			return nil, fmt.Errorf("list addresses of interface %s: %w", link.Attrs().Name, err)
		}
		for _, a := range addresses {
			p, ok := prefixOf(a.IPNet)
			if !ok || p.Addr().IsLinkLocalUnicast() {
				continue
			}
			if link.Type() == "bridge" && l.podRange(p) {
				pods[link.Attrs().Index] = true
				continue
			}
			out = append(out, taken{p.Masked(), "interface " + link.Attrs().Name, true})
		}
	}
	routes, err := l.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{}, 0)
	if err := whole(err); err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		p, ok := prefixOf(r.Dst)
		if !ok || p.Bits() == 0 || p.Addr().IsLinkLocalUnicast() || p.Addr().IsMulticast() || r.Protocol == protocol || pods[r.LinkIndex] {
			continue
		}
		out = append(out, taken{p.Masked(), "a route over interface " + names[r.LinkIndex], false})
	}
	return out, nil
}

// podRange reports whether a network of a bridge is that of this node's pods.
func (l *linux) podRange(p netip.Prefix) bool {
	for _, own := range l.options.own {
		if p.Masked() == own {
			return true
		}
	}
	return false
}

// addresses are those of this machine.
func (l *linux) addresses() ([]netip.Addr, error) {
	list, err := l.handle.AddrList(nil, netlink.FAMILY_ALL)
	if err := whole(err); err != nil {
		return nil, fmt.Errorf("list addresses of this machine: %w", err)
	}
	out := append([]netip.Addr{}, l.options.node...)
	for _, a := range list {
		if p, ok := prefixOf(a.IPNet); ok {
			out = append(out, p.Addr())
		}
	}
	return out, nil
}

// uplink is the interface that has the node's address; nil: none has, such as one that is
// behind address translation.
func (l *linux) uplink() (netlink.Link, error) { return l.linkOf(l.options.node[0]) }

// linkOf is the interface that has an address; nil: none has.
func (l *linux) linkOf(address netip.Addr) (netlink.Link, error) {
	list, err := l.handle.AddrList(nil, netlink.FAMILY_ALL)
	if err := whole(err); err != nil {
		return nil, fmt.Errorf("list addresses of this machine: %w", err)
	}
	for _, a := range list {
		if p, ok := prefixOf(a.IPNet); ok && p.Addr() == address {
			link, err := l.handle.LinkByIndex(a.LinkIndex)
			if err != nil {
				return nil, fmt.Errorf("interface of the node's address %s: %w", p.Addr(), err)
			}
			return link, nil
		}
	}
	return nil, nil //nolint:nilnil // there may be none
}

// mtu is that of pods' interfaces; 0: as the runtime does by itself.
func (l *linux) mtu() (int, error) {
	if l.cfg.MTU != 0 {
		return l.cfg.MTU, nil
	}
	link, err := l.uplink()
	if err != nil || link == nil || link.Attrs().Flags&net.FlagLoopback != 0 {
		return 0, err
	}
	mtu := link.Attrs().MTU
	if l.cfg.Backend == VXLAN || l.cfg.Backend == WireGuard {
		mtu -= l.overhead()
	}
	return mtu, nil
}

// reach makes exactly the routes of hops. What is refused is a node to which there is no way, such as
// for want of a tunnel. With the backend vxlan, which has no other way, that is an error.
func (l *linux) reach(hops []hop) (refused []*network.Refusal, err error) {
	if l.cfg.Backend == WireGuard {
		return l.reachSecurely(hops)
	}
	// Of an earlier run. A key that nothing uses is one that somebody may find.
	if err := errors.Join(l.removeLink(secureName), removeKey(l.options.state)); err != nil {
		return nil, err
	}
	want := map[netip.Prefix]route{}
	var far []hop
	for _, h := range hops {
		link, direct, why := l.choose(h)
		switch {
		case why != "":
			refused = append(refused, &network.Refusal{Node: h.node, Reason: why})
		case direct:
			want[h.to] = route{h, netlink.Route{Dst: netOf(h.to), Gw: h.via.AsSlice(), LinkIndex: link, Protocol: protocol}}
		default:
			far = append(far, h)
		}
	}
	tunnel, more, err := l.tunnel(far)
	if err != nil {
		// Nodes on this link are reached all the same.
		if l.cfg.Backend != VXLAN {
			more, err = refuse(far, err), nil
		}
		far = nil
		_, _, gone := l.tunnel(nil)
		err = errors.Join(err, gone)
	}
	refused = append(refused, more...)
	for _, h := range far {
		if !slices.ContainsFunc(more, func(r *network.Refusal) bool { return r.GetNode() == h.node }) {
			want[h.to] = route{h, netlink.Route{Dst: netOf(h.to), Gw: h.to.Addr().AsSlice(), LinkIndex: tunnel, Protocol: protocol, Flags: int(netlink.FLAG_ONLINK)}}
		}
	}
	more, wrong := l.routes(want)
	return append(refused, more...), errors.Join(err, wrong)
}

// choose says whether a hop is reached over a link, else through the tunnel, or why it is not reached.
func (l *linux) choose(h hop) (link int, direct bool, why string) {
	const noWay = "there is no way to its address %s: %v"
	var err error
	if h.via.IsValid() {
		link, direct, err = l.way(h.via)
	}
	switch {
	case direct && l.cfg.Backend != VXLAN:
		return link, true, ""
	case err != nil && (h.via == h.far || !h.far.IsValid() || l.cfg.Backend == HostGW):
		return 0, false, fmt.Sprintf(noWay, h.via, err)
	case l.cfg.Backend == HostGW && !h.via.IsValid():
		return 0, false, fmt.Sprintf("it has no address (InternalIP) of %s, and backend %s needs one for its range of pod IPs %s; set backend to %s", familyName(h.to.Addr().Is4()), HostGW, h.to, Auto)
	case l.cfg.Backend == HostGW:
		return 0, false, fmt.Sprintf("its address %s is behind a router, and backend %s needs nodes on one link; set backend to %s", h.via, HostGW, Auto)
	case !h.far.IsValid():
		return 0, false, fmt.Sprintf("it has no address (InternalIP) of %s, which the tunnel's packets have", familyName(l.options.outer4()))
	case !h.end.IsValid():
		return 0, false, fmt.Sprintf("its range of pod IPs %s is behind the tunnel, which knows a node by its first range, and that is not its own", h.to)
	}
	if h.far != h.via {
		if _, _, err := l.way(h.far); err != nil {
			return 0, false, fmt.Sprintf(noWay, h.far, err)
		}
	}
	return 0, false, ""
}

// route is how the machine reaches a hop.
type route struct {
	hop
	netlink.Route
}

// refuse says of each node of hops why it is not reached.
func refuse(hops []hop, why error) (refused []*network.Refusal) {
	for _, h := range hops {
		refused = append(refused, &network.Refusal{Node: h.node, Reason: why.Error()})
	}
	return refused
}

// way is the link over which an address is reached, and whether without a router.
func (l *linux) way(to netip.Addr) (link int, direct bool, err error) {
	routes, err := l.handle.RouteGet(to.AsSlice())
	if err != nil {
		return 0, false, err
	}
	for _, r := range routes {
		if r.Type == unix.RTN_UNICAST && r.LinkIndex != 0 {
			return r.LinkIndex, r.Gw == nil && r.Via == nil, nil
		}
	}
	return 0, false, unix.EHOSTUNREACH
}

// routes makes the routes that are ours exactly these. A node is refused whose route the kernel refuses.
func (l *linux) routes(want map[netip.Prefix]route) (refused []*network.Refusal, _ error) {
	have, err := l.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	if err := whole(err); err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var errs []error
	there := map[netip.Prefix]bool{}
	for i := range have {
		r := &have[i]
		p, ok := prefixOf(r.Dst)
		w, wanted := want[p]
		if ok && wanted && same(&w.Route, r) {
			there[p] = true
			continue
		}
		// It is replaced, so that no packet meets none. But no gateway of IPv6 is taken that the former route leads to.
		if ok && wanted && (p.Addr().Is4() || w.LinkIndex == r.LinkIndex) {
			continue
		}
		if err := l.handle.RouteDel(r); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("delete route to %s: %w", p, err))
		}
	}
	for p, r := range want {
		if there[p] {
			continue
		}
		err := l.handle.RouteReplace(&r.Route)
		if err != nil && r.node == "" {
			errs = append(errs, fmt.Errorf("close the range of pods %s: %w", p, err))
			continue
		}
		if err != nil {
			refused = append(refused, refuse([]hop{r.hop}, fmt.Errorf("could not create route to %s by %s: %w", p, r.Gw, err))...)
		}
	}
	return refused, errors.Join(errs...)
}

// same compares what leads to one range.
func same(want, have *netlink.Route) bool {
	if want.Type == unix.RTN_UNREACHABLE || have.Type == unix.RTN_UNREACHABLE {
		return want.Type == have.Type
	}
	return want.Gw.Equal(have.Gw) && want.LinkIndex == have.LinkIndex && want.Flags == have.Flags&int(netlink.FLAG_ONLINK)
}

// remove takes everything away that the plugin made.
func (l *linux) remove() error {
	return errors.Join(l.removeObjects(), l.restore())
}

// removeObjects deletes the routes, the tunnel with its neighbours, and the tables.
func (l *linux) removeObjects() error {
	_, err := l.routes(nil)
	return errors.Join(err, l.removeTunnel(), l.removeLink(secureName), l.removeTable(true), l.removeTable(false))
}

// family is that of an address for netlink.
func family(a netip.Addr) int {
	if a.Is4() {
		return nl.FAMILY_V4
	}
	return nl.FAMILY_V6
}
