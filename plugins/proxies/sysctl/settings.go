package sysctl

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// sysctlFile keeps the values found before the first change, for cleanup.
const sysctlFile = "sysctl.json"

// Needs says what a data path needs of the kernel.
type Needs struct {
	// Localhost lets packets to 127.0.0.1 leave to pods.
	Localhost bool
	// IPv6 forwards packets of that family. A machine that forwards takes no router's
	// advertisement for its own address, so that it is asked for only where pods have IPv6.
	IPv6 bool
	// IPVS has connections of the kernel's load balancer tracked, so that they can be
	// masqueraded, and ends those whose endpoint is gone.
	IPVS bool
	// OldIPVS keeps it from dropping the first packet where a client's port is used again,
	// which kernels before 5.9 do.
	OldIPVS bool
	// StrictARP has no interface answer for addresses of another one.
	StrictARP bool
}

// values are the switches of the kernel that the rules need.
func (n Needs) values() map[string]string {
	m := map[string]string{
		"net/ipv4/ip_forward": "1",
		bridgeSwitch:          "1", // absent where no bridge is
	}
	if n.Localhost {
		m[localhostSwitch] = "1"
	}
	if n.IPv6 {
		m["net/ipv6/conf/all/forwarding"] = "1"
		m[bridgeSwitch6] = "1"
	}
	if n.IPVS {
		for _, name := range []string{"conntrack", "expire_nodest_conn", "expire_quiescent_template"} {
			m["net/ipv4/vs/"+name] = "1"
		}
	}
	if n.OldIPVS {
		m["net/ipv4/vs/conn_reuse_mode"] = "0"
	}
	if n.StrictARP {
		m["net/ipv4/conf/all/arp_ignore"] = "1"
		m["net/ipv4/conf/all/arp_announce"] = "2"
	}
	return m
}

// Settings are the switches of the service proxies. The proxies of one machine share them:
// what one remembered, another that takes its place puts back.
type Settings struct {
	Proc           string // /proc/sys, but for tests
	StateDirectory string
}

const localhostSwitch = "net/ipv4/conf/all/route_localnet"

func (s Settings) switches() Switches {
	all := Needs{Localhost: true, IPv6: true, IPVS: true, OldIPVS: true, StrictARP: true}.values()
	return Switches{Proc: s.Proc, File: filepath.Join(s.StateDirectory, sysctlFile), Known: slices.Sorted(maps.Keys(all))}
}

// Set sets the switches and remembers what they were.
func (s Settings) Set(needs Needs) error {
	loadBridges(s.Proc)
	return s.switches().Set(needs.values())
}

// CloseLocalhost puts the switch back that Localhost opened, if it was remembered: the rules
// are gone that guard 127.0.0.1. The rest stays as it is until Restore.
func (s Settings) CloseLocalhost() error {
	if err := s.switches().back(localhostSwitch); err != nil {
		return fmt.Errorf("close 127.0.0.1: %w", err)
	}
	return nil
}

// Restore puts the remembered values back and forgets them.
func (s Settings) Restore() error { return s.switches().Restore() }
