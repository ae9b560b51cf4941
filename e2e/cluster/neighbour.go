package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os/exec"

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
// host-gw does, and lets its pods see the addresses of those that run here. all is the
// range of the pods of all nodes, theirs the part of the neighbour.
func (n *Network) routePods(all, theirs, neighbour string) error {
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
		// The bridge of the pods masquerades what leaves its own range. What a service proxy
		// has marked has to be masqueraded, since its answer would take another way.
		cmd := exec.Command("iptables", "-w", "5", "-t", "nat", "-I", "POSTROUTING", "-s", all, "-d", all, "-m", "mark", "!", "--mark", "0x4000/0x4000", "-j", "ACCEPT")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(out))
		}
		return nil
	})
}
