package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

func main() {
	nothing := func(*skel.CmdArgs) error { return nil }
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: nothing, Check: nothing, GC: nothing, Status: nothing},
		version.All, "announce: says at which hardware address a pod's IP is now")
}

// add announces the addresses that the plugins before it gave to the sandbox.
func add(args *skel.CmdArgs) error {
	var conf types.PluginConf
	if err := json.Unmarshal(args.StdinData, &conf); err != nil {
		return fmt.Errorf("announce: configuration: %w", err)
	}
	if err := version.ParsePrevResult(&conf); err != nil {
		return fmt.Errorf("announce: result of the plugin before: %w", err)
	}
	if conf.PrevResult == nil {
		return errors.New("announce: no result of a plugin before; put announce behind bridge in the network's list")
	}
	result, err := current.NewResultFromResult(conf.PrevResult)
	if err != nil {
		return fmt.Errorf("announce: result of the plugin before: %w", err)
	}
	err = ns.WithNetNSPath(args.Netns, func(ns.NetNS) error { return announce(args.IfName, result.IPs) })
	if err != nil {
		return fmt.Errorf("announce the addresses of sandbox %s: %w", args.ContainerID, err)
	}
	return types.PrintResult(conf.PrevResult, conf.CNIVersion)
}

// announce sends an announcement of each IPv4 address through an interface of this
// network namespace.
func announce(name string, ips []*current.IPConfig) error {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	if len(link.HardwareAddr) != 6 {
		return nil // no Ethernet: no address that others could remember
	}
	const arp = unix.ETH_P_ARP&0xff<<8 | unix.ETH_P_ARP>>8 // as the network orders its bytes
	to := &unix.SockaddrLinklayer{Protocol: arp, Ifindex: link.Index, Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	defer unix.Close(socket)
	for _, ip := range ips {
		addr, ok := netip.AddrFromSlice(ip.Address.IP)
		if addr = addr.Unmap(); !ok || !addr.Is4() {
			continue
		}
		if err := unix.Sendto(socket, announcement(link.HardwareAddr, addr), 0, to); err != nil {
			return fmt.Errorf("announce %s through %s: %w", addr, name, err)
		}
	}
	return nil
}

// announcement is an ARP announcement (RFC 5227, 2.3): a request whose sender and
// target have the same address, by which all update what they remember. 28 bytes.
func announcement(mac net.HardwareAddr, addr netip.Addr) []byte {
	const ethernet, request = 1, 1
	b := binary.BigEndian.AppendUint16(nil, ethernet)
	b = binary.BigEndian.AppendUint16(b, unix.ETH_P_IP)
	b = append(b, 6, 4) // lengths of the two kinds of addresses
	b = binary.BigEndian.AppendUint16(b, request)
	b = append(append(b, mac...), addr.AsSlice()...)
	return append(append(b, make([]byte, 6)...), addr.AsSlice()...)
}
