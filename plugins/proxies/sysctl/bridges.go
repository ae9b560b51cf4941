package sysctl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// By these, packets that a bridge carries from one pod to another meet the rules for what is
// forwarded. A kernel without IPv6 does not have the second.
const (
	bridgeSwitch  = "net/bridge/bridge-nf-call-iptables"
	bridgeSwitch6 = "net/bridge/bridge-nf-call-ip6tables"
)

// loadBridges asks for the module of bridges' packets where it is missing, as on a fresh Debian:
// without it a pod that asks a service gets no answer from a pod of its own bridge, since the
// answer meets no rule. A machine without bridges may lack the module, so that this is no fault.
func loadBridges(proc string) {
	if _, err := os.Stat(filepath.Join(proc, bridgeSwitch)); err != nil && proc == "/proc/sys" {
		ctx, cancel := context.WithTimeout(context.Background(), loadLimit)
		defer cancel()
		_ = exec.CommandContext(ctx, "modprobe", "br_netfilter").Run()
	}
}

// loadLimit is how long the module may take.
const loadLimit = 10 * time.Second

// BridgesFile is where the first values of the switches of bridges are remembered.
const BridgesFile = "networkpolicy-switches.json"

// Bridges are the switches that network policies need.
type Bridges struct {
	Proc           string // /proc/sys, but for tests
	StateDirectory string
}

// BridgeSwitches are their paths below Proc. The first one has to be there.
func BridgeSwitches() []string { return []string{bridgeSwitch, bridgeSwitch6} }

func (b Bridges) switches() Switches {
	return Switches{Proc: b.Proc, File: filepath.Join(b.StateDirectory, BridgesFile), Known: BridgeSwitches()}
}

// Available returns why packets between pods of one bridge would not be seen, if so. It asks for
// the module that they need: policies begin before the proxy, which does that too.
func (b Bridges) Available() error {
	loadBridges(b.Proc)
	if _, err := os.Stat(filepath.Join(b.Proc, bridgeSwitch)); err != nil {
		return fmt.Errorf("the kernel shows packets between pods of bridges to no rule: %w; load the module br_netfilter (modprobe br_netfilter)", err)
	}
	return nil
}

// On sets the switches, and remembers the first values that it found others to be.
func (b Bridges) On() error {
	if err := b.Available(); err != nil {
		return err
	}
	return b.switches().Set(map[string]string{bridgeSwitch: "1", bridgeSwitch6: "1"})
}

// Restore puts the remembered values back and forgets them.
func (b Bridges) Restore() error { return b.switches().Restore() }
