package cluster

import (
	"errors"
	"fmt"

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
