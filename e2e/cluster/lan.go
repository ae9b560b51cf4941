package cluster

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// LAN is several machines on one link. Machine 0 has NodeIP, each further one the next
// address.
type LAN struct {
	Networks []*Network
	link     *Network // has the bridge, and nothing else
}

// NewLAN makes the networks; they end with their last processes.
func NewLAN(machines int) (_ *LAN, err error) {
	l := &LAN{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make networks: %w", err), l.Close())
		}
	}()
	l.link, err = newNetwork(func() error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lan"}}
		return errors.Join(netlink.LinkAdd(bridge), netlink.LinkSetUp(bridge))
	})
	if err != nil {
		return nil, err
	}
	for i := range machines {
		port := fmt.Sprint("port", i)
		n, err := newNetwork(func() error {
			eth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: port}
			if err := netlink.LinkAdd(eth); err != nil {
				return err
			}
			other, err := netlink.LinkByName(port)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetNsFd(other, int(l.link.handle)); err != nil {
				return err
			}
			return bringUp(eth, l.IP(i))
		})
		if err != nil {
			return nil, err
		}
		l.Networks = append(l.Networks, n)
		if err := l.link.Do(func() error {
			end, err := netlink.LinkByName(port)
			if err != nil {
				return err
			}
			bridge, err := netlink.LinkByName("lan")
			if err != nil {
				return err
			}
			return errors.Join(netlink.LinkSetMaster(end, bridge), netlink.LinkSetUp(end))
		}); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// IP is the address of a machine.
func (l *LAN) IP(machine int) string {
	ip := net.ParseIP(NodeIP).To4()
	ip[3] += byte(machine)
	return ip.String()
}

// Cut takes a machine off the link, or puts it back.
func (l *LAN) Cut(machine int, off bool) error {
	return l.link.Do(func() error {
		end, err := netlink.LinkByName(fmt.Sprint("port", machine))
		if err != nil {
			return fmt.Errorf("cut machine %d: %w", machine, err)
		}
		if off {
			return netlink.LinkSetNoMaster(end)
		}
		bridge, err := netlink.LinkByName("lan")
		if err != nil {
			return fmt.Errorf("cut machine %d: %w", machine, err)
		}
		return netlink.LinkSetMaster(end, bridge)
	})
}

// Move gives a machine another address, with the same default route.
func (l *LAN) Move(machine int, ip string) error {
	return l.Networks[machine].Do(func() error {
		eth, err := netlink.LinkByName("eth0")
		if err != nil {
			return fmt.Errorf("move machine %d: %w", machine, err)
		}
		list, err := netlink.AddrList(eth, netlink.FAMILY_V4)
		if err != nil {
			return fmt.Errorf("move machine %d: %w", machine, err)
		}
		for _, a := range list {
			if err := netlink.AddrDel(eth, &a); err != nil {
				return fmt.Errorf("move machine %d: %w", machine, err)
			}
		}
		return bringUp(eth, ip)
	})
}

// Close gives the networks up.
func (l *LAN) Close() error {
	var errs []error
	for _, n := range append(l.Networks, l.link) {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}
