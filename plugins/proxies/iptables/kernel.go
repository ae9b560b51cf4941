package iptables

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// sysctlFile keeps the values found at the first start, for cleanup.
const sysctlFile = "sysctl.json"

// sysctls are the switches of the kernel that the rules need.
func sysctls(localhost bool) map[string]string {
	m := map[string]string{
		"net/ipv4/ip_forward":                "1",
		"net/bridge/bridge-nf-call-iptables": "1", // absent where no bridge is
	}
	if localhost {
		m["net/ipv4/conf/all/route_localnet"] = "1"
	}
	return m
}

// tuneKernel sets the switches and remembers what they were.
func tuneKernel(localhost bool, stateDir string) error {
	before := map[string]string{}
	for name, want := range sysctls(localhost) {
		file := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if got := strings.TrimSpace(string(value)); got != want {
			if err := os.WriteFile(file, []byte(want), 0); err != nil {
				return fmt.Errorf("set %s to %s: %w", strings.ReplaceAll(name, "/", "."), want, err)
			}
			before[name] = got
		}
	}
	if len(before) == 0 {
		return nil
	}
	data, err := json.Marshal(before)
	if err == nil {
		err = os.MkdirAll(stateDir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(stateDir, sysctlFile), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("remember kernel settings: %w", err)
	}
	return nil
}

// restoreKernel puts the remembered values back.
func restoreKernel(stateDir string) error {
	file := filepath.Join(stateDir, sysctlFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var before map[string]string
	if err == nil {
		err = json.Unmarshal(data, &before)
	}
	if err != nil {
		return fmt.Errorf("restore kernel settings: %w", err)
	}
	known := sysctls(true)
	for name, value := range before {
		if _, ok := known[name]; !ok {
			continue
		}
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("restore %s: %w", name, err)
		}
	}
	return os.Remove(file)
}
