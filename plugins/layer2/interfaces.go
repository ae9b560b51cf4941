package layer2

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
)

// place is the link of a node's address.
type place struct {
	ifi     net.Interface
	network netip.Prefix
	ip      netip.Addr // the node's
}

// same says whether a link is still as it was opened.
func (p place) same(o place) bool {
	return p.ifi.Index == o.ifi.Index && bytes.Equal(p.ifi.HardwareAddr, o.ifi.HardwareAddr) && p.network == o.network && p.ip == o.ip
}

// find finds the interface that has a node's address. It has to be one of Ethernet.
func find(ip netip.Addr) (place, error) {
	list, err := net.Interfaces()
	if err != nil {
		return place{}, fmt.Errorf("list interfaces: %w", err)
	}
	for _, ifi := range list {
		addresses, err := ifi.Addrs()
		if err != nil {
			continue // it went meanwhile
		}
		for _, a := range addresses {
			n, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			have, _ := netip.AddrFromSlice(n.IP)
			if have.Unmap() != ip {
				continue
			}
			if ifi.Flags&net.FlagUp == 0 || ifi.Flags&net.FlagLoopback != 0 || ifi.Flags&net.FlagBroadcast == 0 || len(ifi.HardwareAddr) != 6 {
				return place{}, fmt.Errorf("interface %s with the node's address %s is down or no Ethernet", ifi.Name, ip)
			}
			bits, _ := n.Mask.Size()
			return place{ifi: ifi, network: netip.PrefixFrom(ip, bits).Masked(), ip: ip}, nil
		}
	}
	return place{}, fmt.Errorf("no interface has the node's address %s", ip)
}
