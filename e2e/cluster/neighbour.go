package cluster

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// NewNeighbour makes the network of a second machine, with NeighbourIP, at the other end
// of the first one's cable. A machine has one neighbour at most. When either network
// ends, so does the cable.
func NewNeighbour(first *Network) (*Network, error) {
	second, err := newNetwork(func() error { return nil })
	if err != nil {
		return nil, err
	}
	err = first.Do(func() error {
		end, err := netlink.LinkByName(outside)
		if err != nil {
			return err
		}
		return netlink.LinkSetNsFd(end, int(second.handle))
	})
	if err == nil {
		err = second.Do(func() error {
			end, err := netlink.LinkByName(outside)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetName(end, "eth0"); err != nil {
				return err
			}
			return bringUp(end, NeighbourIP)
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("join networks: %w", err), second.Close())
	}
	return second, nil
}

// routePods leads to pods of a neighbour by its address, as a network plugin of the kind
// host-gw does. theirs is the range of the neighbour's pods.
func (n *Network) routePods(theirs, neighbour string) error {
	_, to, err := net.ParseCIDR(theirs)
	if err != nil {
		return fmt.Errorf("route to pods: %w", err)
	}
	return n.Do(func() error {
		eth, err := netlink.LinkByName("eth0")
		if err != nil {
			return fmt.Errorf("route to pods: %w", err)
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: to, Gw: net.ParseIP(neighbour)}); err != nil {
			return fmt.Errorf("route to pods %s by %s: %w", theirs, neighbour, err)
		}
		return nil
	})
}
