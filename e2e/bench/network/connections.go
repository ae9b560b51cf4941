package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/e2e/bench/rig"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

const (
	// connectWorkers open connections at the same time, each one after the other.
	connectWorkers = 4
	// connectTurn is how long one way is taken before the other one has its turn.
	connectTurn = 500 * time.Millisecond
	// connectTurns of each way make a round.
	connectTurns = 8
)

// The pods of a lane, within the pods' range of proxy/main.go and outside of what address gives.
var (
	clientAddress  = netip.MustParsePrefix("10.200.1.2/24")
	serverAddress  = netip.MustParsePrefix("10.200.2.2/24")
	serverPort     = uint16(8080)
	serviceAddress = netip.MustParseAddrPort("10.63.0.1:80")
)

// lane is a client and a server, each in a network namespace of its own, with a node between
// them that forwards.
type lane struct {
	client           netns.NsHandle
	listener         net.Listener
	group            sync.WaitGroup
	opened, accepted atomic.Int64
}

// newLane makes the node of a process's network namespace. The server accepts and closes.
func newLane(node int) (*lane, error) {
	between, err := netns.GetFromPid(node)
	if err != nil {
		return nil, fmt.Errorf("find the network of the proxy: %w", err)
	}
	defer between.Close()
	client, err := behind(between, "client", clientAddress)
	if err != nil {
		return nil, err
	}
	l := &lane{client: client}
	server, err := behind(between, "server", serverAddress)
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	defer server.Close()
	err = errors.Join(
		within(between, func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }),
		within(server, func() error {
			l.listener, err = net.Listen("tcp4", netip.AddrPortFrom(serverAddress.Addr(), serverPort).String())
			return err
		}),
	)
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	for range connectWorkers {
		l.group.Go(func() { // ends with the listener
			for {
				c, err := l.listener.Accept()
				if err != nil {
					return
				}
				c.Close()
				l.accepted.Add(1)
			}
		})
	}
	return l, nil
}

// behind makes a network namespace behind a node: one cable, and the node as its gateway.
func behind(node netns.NsHandle, name string, address netip.Prefix) (netns.NsHandle, error) {
	var made netns.NsHandle
	err := within(netns.None(), func() (err error) {
		made, err = netns.New()
		return err
	})
	if err != nil {
		return made, fmt.Errorf("make the network of the %s: %w", name, err)
	}
	gateway := &net.IPNet{IP: address.Masked().Addr().Next().AsSlice(), Mask: net.CIDRMask(address.Bits(), 32)}
	err = within(node, func() error {
		cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(made)}
		if err := netlink.LinkAdd(cable); err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(cable, &netlink.Addr{IPNet: gateway}), netlink.LinkSetUp(cable))
	})
	err = errors.Join(err, within(made, func() error {
		eth, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		own := &netlink.Addr{IPNet: &net.IPNet{IP: address.Addr().AsSlice(), Mask: gateway.Mask}}
		return errors.Join(netlink.AddrAdd(eth, own), netlink.LinkSetUp(eth), netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: gateway.IP}))
	}))
	if err != nil {
		return made, errors.Join(fmt.Errorf("make the network of the %s: %w", name, err), made.Close())
	}
	return made, nil
}

// within runs f on a thread within a network namespace; None is that of the caller. The thread
// ends with it.
func within(ns netns.NsHandle, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if ns.IsOpen() {
			if err := netns.Set(ns); err != nil {
				done <- fmt.Errorf("enter a network namespace: %w", err)
				return
			}
		}
		done <- f()
	}()
	return <-done
}

func (l *lane) close() error {
	err := l.client.Close()
	if l.listener != nil {
		err = errors.Join(err, l.listener.Close())
	}
	l.group.Wait()
	return err
}

// service is that of the lane's server, among the others of a diff.
func (l *lane) service(diff *proxy.Diff) *proxy.Diff {
	set := proto.Clone(service(0)).(*proxy.Change)
	s := set.Change.(*contractv1.ProxyChange_ServiceSet).ServiceSet
	s.Name.Name, s.ClusterIps = "lane", []string{serviceAddress.Addr().String()}
	ends := proto.Clone(endpointsOf(0, 1, 0)).(*proxy.Change)
	e := ends.Change.(*contractv1.ProxyChange_EndpointsSet).EndpointsSet
	e.Name.Name, e.Ports[0].Endpoints[0].Ip = "lane", serverAddress.Addr().String()
	diff.Changes = append(diff.Changes, set, ends)
	return diff
}

// rate is how many connections a second the client opens to an address.
func (l *lane) rate(ctx context.Context, to netip.AddrPort) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTurn)
	defer cancel()
	before := l.opened.Load()
	errs := make([]error, connectWorkers)
	var group sync.WaitGroup
	begin := time.Now()
	for i := range errs {
		group.Go(func() {
			errs[i] = within(l.client, func() error {
				for ctx.Err() == nil {
					if err := connect(to); err != nil {
						return err
					}
					l.opened.Add(1)
				}
				return nil
			})
		})
	}
	group.Wait()
	// What waits to be accepted is this turn's work, not the next one's.
	for limit := begin.Add(10 * time.Second); l.accepted.Load() < l.opened.Load() && time.Now().Before(limit); {
		time.Sleep(time.Millisecond)
	}
	return float64(l.opened.Load()-before) / time.Since(begin).Seconds(), errors.Join(errs...)
}

// connect opens a connection and ends it with a reset, so that its port is free at once.
func connect(to netip.AddrPort) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := unix.SetsockoptLinger(s, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return err
	}
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return err
	}
	for {
		switch err := unix.Connect(s, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err {
		case nil, unix.EISCONN:
			return nil
		case unix.EINTR: // by a signal of Go's scheduler: the next call waits for the same connection
		default:
			return fmt.Errorf("connect to %s: %w", to, err)
		}
	}
}

// connections compares, for a proxy with some services, the rate through a service with that
// straight to its endpoint.
func (o options) connections(ctx context.Context, name string, services int) (through, direct []float64, err error) {
	c, err := startChild(ctx, o.program, name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	l, err := newLane(c.cmd.Process.Pid)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if _, err := c.apply(l.service(everything(services, o.endpoints))); err != nil {
		return nil, nil, err
	}
	ways := []struct {
		to    netip.AddrPort
		rates *[]float64
	}{{serviceAddress, &through}, {netip.AddrPortFrom(serverAddress.Addr(), serverPort), &direct}}
	for range o.rounds * connectTurns {
		for _, way := range ways {
			rate, err := l.rate(ctx, way.to)
			if err != nil {
				return nil, nil, err
			}
			*way.rates = append(*way.rates, rate)
		}
		slices.Reverse(ways) // none is always first
	}
	return through, direct, nil
}

// connectionFigures are those of nftables with few and with many services, beside iptables.
func (o options) connectionFigures(ctx context.Context) ([]rig.Figure, error) {
	var out []rig.Figure
	for _, services := range []int{10, o.services} {
		fmt.Printf("  %s connections, %d services\n", time.Now().Format(time.TimeOnly), services)
		through, direct, err := o.connections(ctx, "nftables", services)
		if err != nil {
			return out, fmt.Errorf("connections by nftables: %w", err)
		}
		f := rig.Beside(fmt.Sprintf("connections, %d services", services), "1/s", "direct", 0.97, through, direct)
		if !o.alone {
			if through, direct, err := o.connections(ctx, "iptables", services); err != nil {
				f = f.With("iptables fails: %v", err)
			} else {
				their := rig.Beside("", "", "", 0, through, direct)
				f = f.With("iptables: %.2fx of direct", their.Peer.Ratio)
			}
		}
		f.Rounds, f.Peer.Rounds = nil, nil // dozens of turns
		out = append(out, f)
	}
	return out, nil
}
