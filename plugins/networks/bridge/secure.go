package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"pintle.dev/pintle/sdk/network"
)

// secureName is the interface of the backend wireguard.
const secureName = "pintle-wg"

// What WireGuard puts before and behind a packet, in bytes: its header and tag, UDP, and IP of the family of nodes.
const secureOverhead4, secureOverhead6 = 60, 80

// secure is what the backend wireguard remembers.
type secure struct {
	key wgtypes.Key // of this node, private
	// owners are the nodes that have a key: another one that says the same does not get it.
	owners map[wgtypes.Key]string
	// ends are the addresses that peers were given. A peer that answers from elsewhere stays there.
	ends map[wgtypes.Key]netip.AddrPort
}

// publicKey is the node's; empty: nothing is encrypted.
func (l *linux) publicKey() string {
	if l.cfg.Backend != WireGuard {
		return ""
	}
	return l.secure.key.PublicKey().String()
}

// encrypt prepares the backend wireguard: this node's key, and the interface, by which a kernel without WireGuard is found.
// Pods may start before the other nodes are known: nothing leaves in plain, and nothing that came so is taken.
func (l *linux) encrypt() error {
	if l.cfg.Backend != WireGuard {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(l.options.state, keyFile)); errors.Is(err, fs.ErrNotExist) {
		l.undo = append(l.undo, func() error { return removeKey(l.options.state) })
	}
	key, err := ownKey(l.options.state)
	if err != nil {
		return err
	}
	l.secure.key = key
	var none netlink.LinkNotFoundError
	if _, err := l.handle.LinkByName(secureName); errors.As(err, &none) {
		l.undo = append(l.undo, func() error { return l.removeLink(secureName) })
	}
	link, err := l.secureLink()
	if err != nil {
		return err
	}
	if err := l.shut(link.Attrs().Index); err != nil {
		return err
	}
	for _, ipv4 := range []bool{true, false} {
		there, err := l.hasTable(ipv4)
		if err != nil {
			return err
		}
		if !there {
			l.undo = append(l.undo, func() error { return l.removeTable(ipv4) })
		}
	}
	return l.table(nil)
}

// shut closes the cluster's ranges, and then deletes what an earlier run with another backend left: by its routes pods would send
// in plain.
func (l *linux) shut(secureLink int) error {
	have, err := l.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	if err := whole(err); err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for to, r := range l.closed() {
		if slices.ContainsFunc(have, func(h netlink.Route) bool {
			p, _ := prefixOf(h.Dst)
			return p == to && h.Type == unix.RTN_UNREACHABLE
		}) {
			continue
		}
		if err := l.handle.RouteReplace(&r.Route); err != nil {
			return fmt.Errorf("close the range of pods %s until nodes are known: %w", to, err)
		}
		l.undo = append(l.undo, func() error { return l.handle.RouteDel(&r.Route) })
	}
	for i := range have {
		if r := &have[i]; r.Type != unix.RTN_UNREACHABLE && r.LinkIndex != secureLink {
			if err := l.handle.RouteDel(r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("delete route to %s of an earlier run, which is not encrypted: %w", r.Dst, err)
			}
		}
	}
	return l.removeTunnel()
}

// behindOthers is the metric of routes that close ranges: one of another's to the same range comes first, and stays.
const behindOthers = 1 << 16

// closed are routes by which no packet leaves to ranges of the cluster: it would not be encrypted. Those to a node's range come
// before, since they are narrower.
func (l *linux) closed() map[netip.Prefix]route {
	out := map[netip.Prefix]route{}
	for _, all := range l.options.all {
		if l.hasFamily(all.Addr().Is4()) && !slices.Contains(l.options.own, all) {
			out[all] = route{hop{to: all}, netlink.Route{Dst: netOf(all), Type: unix.RTN_UNREACHABLE, Protocol: protocol, Priority: behindOthers}}
		}
	}
	return out
}

// hasFamily reports whether the machine sends packets of a family, though its pods may have no address of it.
func (l *linux) hasFamily(ipv4 bool) bool {
	_, err := os.Stat(filepath.Join(l.proc, forwardSwitch6))
	return ipv4 || err == nil
}

// secureLink is the interface, which is made where it is not there.
func (l *linux) secureLink() (netlink.Link, error) {
	up, err := l.uplink()
	if err != nil {
		return nil, err
	}
	if up == nil {
		return nil, fmt.Errorf("no interface has the node's address %s, from which the tunnel sends; set node.address", l.options.node[0])
	}
	mtu := up.Attrs().MTU - l.overhead()
	if l.cfg.MTU != 0 {
		mtu = l.cfg.MTU
	}
	link, err := l.handle.LinkByName(secureName)
	var none netlink.LinkNotFoundError
	switch {
	case errors.As(err, &none):
		err = l.handle.LinkAdd(&netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: secureName, MTU: mtu}})
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
			return nil, fmt.Errorf("backend %s: this machine's kernel has no WireGuard (%w); load its module (modprobe wireguard), or choose another backend", WireGuard, err)
		}
		if err != nil {
			return nil, fmt.Errorf("make interface %s of type wireguard: %w", secureName, err)
		}
		if link, err = l.handle.LinkByName(secureName); err != nil {
			return nil, err
		}
		l.secure.ends = nil // the interface is new, and has no peer
	case err != nil:
		return nil, err
	case link.Type() != "wireguard":
		return nil, fmt.Errorf("interface %s is of type %s, which others made; delete it", secureName, link.Type())
	}
	if link.Attrs().MTU != mtu {
		if err := l.handle.LinkSetMTU(link, mtu); err != nil {
			return nil, fmt.Errorf("MTU of interface %s: %w", secureName, err)
		}
	}
	return link, nil
}

// reachSecurely makes exactly the peers and routes of hops, and closes the rest of the cluster's ranges.
func (l *linux) reachSecurely(hops []hop) (refused []*network.Refusal, _ error) {
	if _, _, err := l.tunnel(nil); err != nil { // there may be one of an earlier run
		return nil, err
	}
	link, err := l.secureLink()
	if err != nil {
		return nil, err
	}
	want := l.closed()
	if l.secure.owners == nil {
		if err := l.within(func() error { return l.recall(hops) }); err != nil {
			return nil, fmt.Errorf("peers of interface %s that an earlier run left: %w", secureName, err)
		}
	}
	peers, refused := l.peers(hops)
	if err := l.within(func() error { return l.configure(peers) }); err != nil {
		return nil, fmt.Errorf("peers of interface %s: %w", secureName, err)
	}
	// The first address of the range is none of a pod's: by it the machine itself reaches pods.
	for _, own := range l.options.own {
		address := &netlink.Addr{IPNet: netOf(netip.PrefixFrom(own.Addr(), own.Addr().BitLen()))}
		if own.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD
		}
		if err := l.handle.AddrReplace(link, address); err != nil {
			return nil, fmt.Errorf("address %s of interface %s: %w", own.Addr(), secureName, err)
		}
	}
	if err := l.handle.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("set interface %s up: %w", secureName, err)
	}
	for _, p := range peers {
		for _, h := range p.hops {
			want[h.to] = route{h, netlink.Route{Dst: netOf(h.to), LinkIndex: link.Attrs().Index, Protocol: protocol, Scope: unix.RT_SCOPE_LINK}}
		}
	}
	more, err := l.routes(want)
	return append(refused, more...), err
}

// peer is a node behind the interface.
type peer struct {
	key  wgtypes.Key
	at   netip.AddrPort
	hops []hop
}

// peers are the nodes that have a key of their own. What is refused is a node without one, or whose key is another's.
func (l *linux) peers(hops []hop) (out map[wgtypes.Key]*peer, refused []*network.Refusal) {
	out = map[wgtypes.Key]*peer{}
	// Who had a key keeps it while its Node says it.
	said := map[string]wgtypes.Key{}
	for _, h := range hops {
		if key, fault := readKey(h.key); fault == "" {
			said[h.node] = key
		}
	}
	owners := map[wgtypes.Key]string{l.secure.key.PublicKey(): ""}
	for key, node := range l.secure.owners {
		if said[node] == key && node != "" {
			owners[key] = node
		}
	}
	for _, h := range hops {
		key, fault := readKey(h.key)
		if fault == "" && !h.far.IsValid() {
			fault = "it has no address (InternalIP) of " + familyName(l.options.outer4()) + ", which the tunnel's packets have"
		}
		if owner, taken := owners[key]; fault == "" && taken && owner != h.node {
			fault = "its public key is that of node " + owner
			if owner == "" {
				fault = "its public key is this node's"
			}
		}
		if fault != "" {
			refused = append(refused, &network.Refusal{Node: h.node, Reason: fault})
			continue
		}
		owners[key] = h.node
		if out[key] == nil {
			out[key] = &peer{key: key, at: netip.AddrPortFrom(h.far, uint16(l.cfg.Port))}
		}
		out[key].hops = append(out[key].hops, h)
	}
	l.secure.owners = owners
	return out, refused
}

// recall learns from the interface who had which key before this process started.
func (l *linux) recall(hops []hop) error {
	client, err := wgctrl.New()
	if err != nil {
		return err
	}
	defer client.Close()
	device, err := client.Device(secureName)
	if err != nil {
		return err
	}
	l.remember(device.Peers, hops)
	return nil
}

// remember makes a node the owner of its key where the peer with that key has a range of the node's. An older node that says the
// same key had none.
func (l *linux) remember(peers []wgtypes.Peer, hops []hop) {
	l.secure.owners = map[wgtypes.Key]string{}
	for _, p := range peers {
		for _, h := range hops {
			if h.key == p.PublicKey.String() && slices.ContainsFunc(p.AllowedIPs, func(n net.IPNet) bool { return n.String() == h.to.String() }) {
				l.secure.owners[p.PublicKey] = h.node
			}
		}
	}
}

// within runs f on a thread of the plugin's network namespace.
func (l *linux) within(f func() error) error {
	if l.space == 0 {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setns(l.space, unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// configure makes key, port and peers of the interface what they should be. What is as it should be is not written.
func (l *linux) configure(peers map[wgtypes.Key]*peer) error {
	client, err := wgctrl.New()
	if err != nil {
		return err
	}
	defer client.Close()
	device, err := client.Device(secureName)
	if err != nil {
		return err
	}
	config := l.difference(device, peers)
	if config.PrivateKey == nil && config.ListenPort == nil && len(config.Peers) == 0 {
		return nil
	}
	if err := client.ConfigureDevice(secureName, config); err != nil {
		return err
	}
	ends := map[wgtypes.Key]netip.AddrPort{}
	for key, p := range peers {
		ends[key] = p.at
	}
	l.secure.ends = ends
	return nil
}

// difference is what leads from the interface as it is to what is wanted. Peers that go come first: two have no range in common
// meanwhile.
func (l *linux) difference(device *wgtypes.Device, peers map[wgtypes.Key]*peer) (config wgtypes.Config) {
	if device.PrivateKey != l.secure.key {
		config.PrivateKey = &l.secure.key
	}
	if device.ListenPort != l.cfg.Port {
		config.ListenPort = &l.cfg.Port
	}
	there := map[wgtypes.Key]wgtypes.Peer{}
	for _, have := range device.Peers {
		if there[have.PublicKey] = have; peers[have.PublicKey] == nil {
			config.Peers = append(config.Peers, wgtypes.PeerConfig{PublicKey: have.PublicKey, Remove: true})
		}
	}
	order := slices.SortedFunc(maps.Keys(peers), func(a, b wgtypes.Key) int { return slices.Compare(a[:], b[:]) })
	for _, key := range order {
		p := peers[key]
		have, known := there[key]
		change := wgtypes.PeerConfig{PublicKey: key, ReplaceAllowedIPs: true}
		for _, h := range p.hops {
			change.AllowedIPs = append(change.AllowedIPs, *netOf(h.to))
		}
		moved := !known || l.secure.ends[key] != p.at || have.Endpoint == nil
		if moved {
			change.Endpoint = net.UDPAddrFromAddrPort(p.at)
		}
		if moved || !sameRanges(have.AllowedIPs, change.AllowedIPs) {
			config.Peers = append(config.Peers, change)
		}
	}
	return config
}

func sameRanges(a, b []net.IPNet) bool {
	texts := func(list []net.IPNet) (out []string) {
		for _, n := range list {
			out = append(out, n.String())
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(texts(a), texts(b))
}
