package sysctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		"net/ipv4/ip_forward":                "1",
		"net/bridge/bridge-nf-call-iptables": "1", // absent where no bridge is
	}
	if n.Localhost {
		m[localhostSwitch] = "1"
	}
	if n.IPv6 {
		m["net/ipv6/conf/all/forwarding"] = "1"
		m["net/bridge/bridge-nf-call-ip6tables"] = "1"
	}
	return m
}

// Settings is a tree of the kernel's switches and where their first values are
// remembered. The proxies of one machine share both: what one remembered, another that
// takes its place puts back.
type Settings struct {
	Proc           string // /proc/sys, but for tests
	StateDirectory string
}

// Set sets the switches and remembers what they were. What an earlier start
// remembered and no cleanup has put back yet (a process that was killed) stays
// as it is: by now the kernel shows our own values.
func (s Settings) Set(needs Needs) error {
	want := needs.values()
	before, err := s.remembered()
	if err != nil {
		// A file that cannot be read must not keep services from working.
		before = nil
	}
	differ := map[string]string{}
	for name, value := range want {
		data, err := os.ReadFile(filepath.Join(s.Proc, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if got := strings.TrimSpace(string(data)); got != value {
			differ[name] = got
		}
	}
	if len(differ) == 0 {
		return nil
	}
	maps.Copy(differ, before)
	// First remembered, then set: whoever is killed in between has lost nothing.
	if err := s.remember(differ); err != nil {
		return fmt.Errorf("remember kernel settings: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		err := os.WriteFile(filepath.Join(s.Proc, name), []byte(want[name]), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set %s to %s: %w", strings.ReplaceAll(name, "/", "."), want[name], err)
		}
	}
	return nil
}

func (s Settings) remember(values map[string]string) error {
	data, err := json.Marshal(values)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.StateDirectory, 0o700); err != nil {
		return err
	}
	file := filepath.Join(s.StateDirectory, sysctlFile)
	if err := os.WriteFile(file+".tmp", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".tmp", file)
}

// remembered returns the values to put back, nil for none.
func (s Settings) remembered() (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(s.StateDirectory, sysctlFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var before map[string]string
	return before, json.Unmarshal(data, &before)
}

const localhostSwitch = "net/ipv4/conf/all/route_localnet"

// CloseLocalhost puts the switch back that Localhost opened, if it was remembered: the rules
// are gone that guard 127.0.0.1. The rest stays as it is until Restore.
func (s Settings) CloseLocalhost() error {
	before, err := s.remembered()
	if err != nil {
		return fmt.Errorf("close 127.0.0.1: %w", err)
	}
	value, set := before[localhostSwitch]
	if !set {
		return nil
	}
	if err := os.WriteFile(filepath.Join(s.Proc, localhostSwitch), []byte(value), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore %s: %w", localhostSwitch, err)
	}
	return nil
}

// Restore puts the remembered values back and forgets them.
func (s Settings) Restore() error {
	before, err := s.remembered()
	if err != nil {
		return fmt.Errorf("restore kernel settings: %w", err)
	}
	known := Needs{Localhost: true, IPv6: true}.values()
	for name, value := range before {
		if _, ok := known[name]; !ok {
			continue
		}
		if err := os.WriteFile(filepath.Join(s.Proc, name), []byte(value), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("restore %s: %w", name, err)
		}
	}
	if err := os.Remove(filepath.Join(s.StateDirectory, sysctlFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
