package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// NodeIP is the address of the machine as a Network shows it (RFC 5737), NeighbourIP that
// of the machine beside it.
const (
	NodeIP      = "192.0.2.10"
	NeighbourIP = "192.0.2.11"
)

// outside is the other end of a Network's only cable.
const outside = "outside"

// Network is where a cluster lives; nil is the machine's own network.
type Network struct {
	handle netns.NsHandle
}

// NewNetwork makes a network namespace without a name: it ends with its last
// process. It fails where the caller may not make one, such as without root.
func NewNetwork() (*Network, error) { return newNetwork(furnish) }

func newNetwork(furnish func() error) (*Network, error) {
	type result struct {
		n   *Network
		err error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread()
		n, err := makeNetwork(furnish)
		made <- result{n, err}
	}()
	r := <-made
	return r.n, r.err
}

// makeNetwork runs on a locked thread and unlocks it when it is back in its own namespace.
func makeNetwork(furnish func() error) (*Network, error) {
	own, err := netns.Get()
	if err != nil {
		return nil, fmt.Errorf("make network namespace: %w", err)
	}
	defer own.Close()
	handle, err := netns.New()
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("make network namespace: %w", err)
	}
	n := &Network{handle: handle}
	err = furnish()
	back := netns.Set(own)
	if back == nil {
		runtime.UnlockOSThread()
	}
	if err = errors.Join(err, back); err != nil {
		return nil, errors.Join(err, handle.Close())
	}
	return n, nil
}

// furnish runs within the namespace: loopback, and one interface with an
// address and a default route, by which programs find the machine's own address.
func furnish() error {
	eth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: outside}
	if err := netlink.LinkAdd(eth); err != nil {
		return fmt.Errorf("furnish network: %w", err)
	}
	other, err := netlink.LinkByName(outside)
	if err != nil {
		return fmt.Errorf("furnish network: %w", err)
	}
	return errors.Join(netlink.LinkSetUp(other), bringUp(eth, NodeIP))
}

// bringUp does what furnish does, for an existing interface.
func bringUp(eth netlink.Link, ip string) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("furnish network: %w", err)
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(ip), Mask: net.CIDRMask(24, 32)}}
	return errors.Join(
		netlink.LinkSetUp(lo),
		netlink.LinkSetUp(eth),
		netlink.AddrAdd(eth, address),
		netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: net.ParseIP("192.0.2.1")}),
	)
}

// AddIPv6 gives the interface another address, which counts at once, and a default route.
func (n *Network) AddIPv6(ip string) error {
	return n.Do(func() error {
		eth, err := netlink.LinkByName("eth0")
		if err == nil {
			err = netlink.AddrAdd(eth, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(ip), Mask: net.CIDRMask(64, 128)}, Flags: unix.IFA_F_NODAD})
		}
		if err == nil {
			// Without a route the kernel sends nothing to addresses of services.
			gateway := net.ParseIP(ip).Mask(net.CIDRMask(64, 128))
			gateway[len(gateway)-1] = 1
			err = netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: gateway})
		}
		if err != nil {
			return fmt.Errorf("add address %s: %w", ip, err)
		}
		return nil
	})
}

// Close gives the namespace up; it ends when its processes have.
func (n *Network) Close() error {
	if n == nil {
		return nil
	}
	return n.handle.Close()
}

// Do runs f on a thread within the namespace. What f starts or opens stays there.
func (n *Network) Do(f func() error) error {
	if n == nil {
		return f()
	}
	done := make(chan error)
	go func() {
		done <- func() error {
			runtime.LockOSThread()
			own, err := netns.Get()
			if err != nil {
				return fmt.Errorf("enter network: %w", err)
			}
			defer own.Close()
			if err := netns.Set(n.handle); err != nil {
				runtime.UnlockOSThread() // it has left nothing
				return fmt.Errorf("enter network: %w", err)
			}
			err = f()
			if back := netns.Set(own); back != nil {
				return errors.Join(err, back) // the thread stays locked and ends
			}
			runtime.UnlockOSThread()
			return err
		}()
	}()
	return <-done
}

// Start starts a command within the network; nil is the machine's own. The command
// may end with the tests (Pdeathsig).
func (n *Network) Start(cmd *exec.Cmd) error { return starts().start(n, cmd) }

// StartProcess starts a command within the machine's own network, as Start does.
func StartProcess(cmd *exec.Cmd) error { return (*Network)(nil).Start(cmd) }

// Dial connects from within the network; address is an IP and a port.
func (n *Network) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.Do(func() error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens within the network.
func (n *Network) Listen(network, address string) (l net.Listener, err error) {
	err = n.Do(func() error {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}
