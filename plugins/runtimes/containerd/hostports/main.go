package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"pintle.dev/pintle/plugins/runtimes/containerd/podnat"
)

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: del, Check: check, GC: gc, Status: status},
		version.All, "hostports: leads ports of the machine to pods by nftables")
}

// config is the plugin's in the list of a network.
type config struct {
	types.PluginConf
	// Bridge is the interface that pods are on.
	Bridge string `json:"bridge"`
	// Directory is where the plugin keeps its records; absolute. It ends with the machine.
	Directory     string `json:"dataDir"`
	RuntimeConfig struct {
		PortMappings []mapping `json:"portMappings"`
	} `json:"runtimeConfig"`
}

// mapping is one port, as CNI's conventions have it.
type mapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP"`
}

// maxBridgeName is what Linux allows for the name of an interface.
const maxBridgeName = 15

func read(data []byte) (*config, podnat.HostPorts, error) {
	c := &config{}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, podnat.HostPorts{}, fmt.Errorf("hostports: configuration: %w", err)
	}
	if c.Bridge == "" || len(c.Bridge) > maxBridgeName || c.Bridge == "." || c.Bridge == ".." || filepath.Base(c.Bridge) != c.Bridge {
		return nil, podnat.HostPorts{}, fmt.Errorf("hostports: configuration: bridge %q: want the name of an interface", c.Bridge)
	}
	if !filepath.IsAbs(c.Directory) {
		return nil, podnat.HostPorts{}, fmt.Errorf("hostports: configuration: dataDir %q: want an absolute path", c.Directory)
	}
	return c, podnat.HostPorts{Bridge: c.Bridge, Directory: c.Directory}, nil
}

func add(args *skel.CmdArgs) error {
	c, ports, err := read(args.StdinData)
	if err != nil {
		return err
	}
	if err := version.ParsePrevResult(&c.PluginConf); err != nil {
		return fmt.Errorf("hostports: result of the plugin before: %w", err)
	}
	if c.PrevResult == nil {
		return errors.New("hostports: no result of a plugin before; put hostports behind the plugin that gives addresses")
	}
	s, err := sandbox(args, c)
	if err == nil && len(s.Ports) > 0 {
		err = ports.Add(s)
	}
	if err != nil {
		return fmt.Errorf("hostports: %w", err)
	}
	return types.PrintResult(c.PrevResult, c.CNIVersion)
}

// sandbox is what the configuration and the result of the plugin before say of a sandbox.
func sandbox(args *skel.CmdArgs, c *config) (podnat.Sandbox, error) {
	s := podnat.Sandbox{ID: args.ContainerID, Interface: args.IfName}
	for _, m := range c.RuntimeConfig.PortMappings {
		p, err := m.port()
		if err != nil {
			return s, err
		}
		s.Ports = append(s.Ports, p)
	}
	result, err := current.NewResultFromResult(c.PrevResult)
	if err != nil {
		return s, fmt.Errorf("result of the plugin before: %w", err)
	}
	for _, ip := range result.IPs {
		if i := ip.Interface; i != nil && *i >= 0 && *i < len(result.Interfaces) && (result.Interfaces[*i].Sandbox == "" || result.Interfaces[*i].Name != args.IfName) {
			continue // of the machine's end, or of another interface
		}
		address, ok := netip.AddrFromSlice(ip.Address.IP)
		bits, _ := ip.Address.Mask.Size()
		address = address.Unmap()
		if !ok || slices.ContainsFunc(s.Addresses, func(a netip.Prefix) bool { return a.Addr().Is4() == address.Is4() }) {
			continue
		}
		s.Addresses = append(s.Addresses, netip.PrefixFrom(address, bits))
	}
	if len(s.Ports) > 0 && len(s.Addresses) == 0 {
		return s, fmt.Errorf("sandbox %s has host ports and no address", args.ContainerID)
	}
	return s, nil
}

func (m mapping) port() (podnat.Port, error) {
	if m.HostPort < 1 || m.HostPort > 65535 || m.ContainerPort < 1 || m.ContainerPort > 65535 {
		return podnat.Port{}, fmt.Errorf("host port %d to port %d: want ports from 1 to 65535", m.HostPort, m.ContainerPort)
	}
	p := podnat.Port{HostPort: uint16(m.HostPort), ContainerPort: uint16(m.ContainerPort), Protocol: m.Protocol}
	if m.HostIP == "" {
		return p, nil
	}
	ip, err := netip.ParseAddr(m.HostIP)
	if err != nil || ip.Zone() != "" {
		return p, fmt.Errorf("host port %d: hostIP %q is no address", m.HostPort, m.HostIP)
	}
	p.HostIP = ip.Unmap()
	return p, nil
}

func del(args *skel.CmdArgs) error {
	_, ports, err := read(args.StdinData)
	if err != nil {
		return err
	}
	if err := ports.Remove(args.ContainerID, args.IfName); err != nil {
		return fmt.Errorf("hostports: %w", err)
	}
	return nil
}

func check(args *skel.CmdArgs) error {
	c, ports, err := read(args.StdinData)
	if err != nil || len(c.RuntimeConfig.PortMappings) == 0 {
		return err
	}
	if err := ports.Check(args.ContainerID, args.IfName); err != nil {
		return fmt.Errorf("hostports: %w", err)
	}
	return nil
}

func gc(args *skel.CmdArgs) error {
	c, ports, err := read(args.StdinData)
	if err != nil {
		return err
	}
	if err := ports.Keep(func(id, iface string) bool {
		return slices.Contains(c.ValidAttachments, types.GCAttachment{ContainerID: id, IfName: iface})
	}); err != nil {
		return fmt.Errorf("hostports: %w", err)
	}
	return nil
}

// status is good where the kernel has no nftables, too: pods without host ports start there.
func status(args *skel.CmdArgs) error {
	_, _, err := read(args.StdinData)
	return err
}
