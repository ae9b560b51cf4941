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
	all := Needs{Localhost: true, IPv6: true}.values()
	return Switches{Proc: s.Proc, File: filepath.Join(s.StateDirectory, sysctlFile), Known: slices.Sorted(maps.Keys(all))}
}

// Set sets the switches and remembers what they were.
func (s Settings) Set(needs Needs) error { return s.switches().Set(needs.values()) }

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
