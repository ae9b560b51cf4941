package networkpolicy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// bridgeSwitches are by which packets that a bridge carries from one pod to another meet
// the rules for what is forwarded.
var bridgeSwitches = []string{"net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"}

const switchesFile = "networkpolicy-switches.json"

// bridges is the kernel's tree of switches, and the folder in which is remembered what they were.
type bridges struct{ proc, state string }

// available returns why packets between pods of one bridge would not be seen, if so.
func (b bridges) available() error {
	name := bridgeSwitches[0]
	if _, err := os.Stat(filepath.Join(b.proc, name)); err != nil {
		return fmt.Errorf("the kernel shows packets between pods of one bridge to no rule: %w; load the module br_netfilter (modprobe br_netfilter)", err)
	}
	return nil
}

// on sets the switches, and remembers the first values that it found others to be.
func (b bridges) on() error {
	differ := map[string]string{}
	for _, name := range bridgeSwitches {
		data, err := os.ReadFile(filepath.Join(b.proc, name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != bridgeSwitches[0]: // a kernel without IPv6
		case err != nil:
			return fmt.Errorf("read whether bridges show packets to rules: %w", err)
		case strings.TrimSpace(string(data)) != "1":
			differ[name] = strings.TrimSpace(string(data))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	// What an earlier start remembered was there before that.
	names := slices.Collect(maps.Keys(differ))
	if before, err := b.remembered(); err == nil {
		maps.Copy(differ, before)
	}
	if err := b.remember(differ); err != nil {
		return fmt.Errorf("remember switches of bridges: %w", err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(b.proc, name), []byte("1"), 0); err != nil {
			return fmt.Errorf("set %s to 1: %w", strings.ReplaceAll(name, "/", "."), err)
		}
	}
	return nil
}

func (b bridges) remembered() (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(b.state, switchesFile))
	if err != nil {
		return nil, err
	}
	var values map[string]string
	return values, json.Unmarshal(data, &values)
}

func (b bridges) remember(values map[string]string) error {
	data, err := json.Marshal(values)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.state, 0o700); err != nil {
		return err
	}
	file := filepath.Join(b.state, switchesFile)
	if err := os.WriteFile(file+".tmp", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".tmp", file)
}

// restore puts the remembered values back, of these switches alone, and forgets them.
func (b bridges) restore() error {
	values, err := b.remembered()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restore switches of bridges: %w", err)
	}
	for _, name := range bridgeSwitches {
		value, was := values[name]
		if !was {
			continue
		}
		if err := os.WriteFile(filepath.Join(b.proc, name), []byte(value), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("restore %s: %w", strings.ReplaceAll(name, "/", "."), err)
		}
	}
	return os.Remove(filepath.Join(b.state, switchesFile))
}

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
