package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The kernel's switches by which packets are forwarded, below /proc/sys, and the files that
// remember what they were.
const (
	forwardSwitch  = "net/ipv4/ip_forward"
	forwardFile    = "ip_forward"
	forwardSwitch6 = "net/ipv6/conf/all/forwarding"
	forwardFile6   = "ip6_forward"
	// routersFile remembers the interfaces that went on to listen to routers.
	routersFile = "accept_ra"
)

// forward has the machine forward packets of the families that pods have, and remembers what it
// did before.
func (l *linux) forward() error {
	for _, own := range l.options.own {
		if own.Addr().Is4() {
			if _, err := l.set(forwardSwitch, forwardFile); err != nil {
				return err
			}
			continue
		}
		if _, err := os.Stat(filepath.Join(l.proc, forwardSwitch6)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("range of pod IPs %s of this node: the machine has no IPv6 (%s is not there); switch it on, or take that range out", own, forwardSwitch6)
		}
		if on, err := l.read(forwardSwitch6); err != nil || on == "1" {
			if err != nil {
				return err
			}
			continue
		}
		// A machine that forwards listens to no router by itself, and would lose its way out.
		if err := l.hearRouters(); err != nil {
			return err
		}
		if _, err := l.set(forwardSwitch6, forwardFile6); err != nil {
			return err
		}
	}
	return nil
}

func (l *linux) read(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(l.proc, name))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", dotted(name), err)
	}
	return strings.TrimSpace(string(data)), nil
}

// dotted is how sysctl names a switch.
func dotted(name string) string { return strings.ReplaceAll(name, "/", ".") }

// set sets a switch to 1, and writes what it was into a file before.
func (l *linux) set(name, file string) (changed bool, err error) {
	before, err := l.read(name)
	if err != nil || before == "1" {
		return false, err
	}
	if err := writeWhole(filepath.Join(l.options.state, file), []byte(before)); err != nil {
		return false, fmt.Errorf("remember %s: %w", dotted(name), err)
	}
	l.undo = append(l.undo, func() error { return l.putBack(name, file) })
	if err := os.WriteFile(filepath.Join(l.proc, name), []byte("1"), 0); err != nil {
		return false, fmt.Errorf("set %s to 1: %w", dotted(name), err)
	}
	return true, nil
}

func routers(name string) string { return "net/ipv6/conf/" + name + "/accept_ra" }

// hearRouters has the interfaces with the node's addresses go on to take routes from routers (accept_ra 2), where
// they do (1). No other interface does: pods are behind some.
func (l *linux) hearRouters() error {
	names, err := l.interfaces()
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		now, err := l.read(routers(name))
		return err != nil || now != "1" // without IPv6 it hears none
	})
	if len(names) == 0 {
		return nil
	}
	if err := writeWhole(filepath.Join(l.options.state, routersFile), []byte(strings.Join(names, "\n"))); err != nil {
		return fmt.Errorf("remember which interfaces listen to routers: %w", err)
	}
	l.undo = append(l.undo, l.ignoreRouters)
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(l.proc, routers(name)), []byte("2"), 0); err != nil {
			return fmt.Errorf("set %s to 2: %w", dotted(routers(name)), err)
		}
	}
	return nil
}

// interfaces are the names of those with the node's addresses.
func (l *linux) interfaces() (names []string, _ error) {
	for _, a := range l.options.node {
		link, err := l.linkOf(a)
		if err != nil {
			return nil, err
		}
		if link != nil && !slices.Contains(names, link.Attrs().Name) {
			names = append(names, link.Attrs().Name)
		}
	}
	return names, nil
}

// restore puts back what forward changed.
func (l *linux) restore() error {
	return errors.Join(l.putBack(forwardSwitch, forwardFile), l.putBack(forwardSwitch6, forwardFile6), l.ignoreRouters())
}

func (l *linux) putBack(name, file string) error {
	kept := filepath.Join(l.options.state, file)
	before, err := os.ReadFile(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && string(before) == "0" { // no other value is written by what the file says
		err = os.WriteFile(filepath.Join(l.proc, name), before, 0)
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", dotted(name), err)
	}
	return os.Remove(kept)
}

func (l *linux) ignoreRouters() error {
	kept := filepath.Join(l.options.state, routersFile)
	data, err := os.ReadFile(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restore which interfaces listen to routers: %w", err)
	}
	for _, name := range strings.Fields(string(data)) {
		if strings.ContainsRune(name, '/') || strings.HasPrefix(name, ".") {
			continue // no interface has such a name
		}
		if now, err := l.read(routers(name)); err != nil || now != "2" {
			continue // it is gone, or others changed it
		}
		if err := os.WriteFile(filepath.Join(l.proc, routers(name)), []byte("1"), 0); err != nil {
			return fmt.Errorf("restore %s: %w", dotted(routers(name)), err)
		}
	}
	return os.Remove(kept)
}
