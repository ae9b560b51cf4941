package networkpolicy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// podBridges are the names of the interfaces that have an address of the pods' ranges, in
// order: the bridges whose gateway it is.
func podBridges(ranges []netip.Prefix) ([]string, error) {
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list addresses of this machine: %w", err)
	}
	var names []string
	for _, a := range addresses {
		address, ok := netip.AddrFromSlice(a.IP)
		if !ok || !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(address.Unmap()) }) {
			continue
		}
		link, err := net.InterfaceByIndex(a.LinkIndex)
		if err != nil {
			continue // it went meanwhile
		}
		names = append(names, link.Name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
