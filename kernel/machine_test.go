package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/config"
)

// What only a kernel does is refused by name, and so is a kernel's own data directory, and one
// in use.
func TestMachineRefuses(t *testing.T) {
	load := func(t *testing.T, set ...string) *config.Config {
		t.Helper()
		cfg, err := config.Load(config.Source{Set: append([]string{"dataDir=" + t.TempDir(), "node.enabled=true", "node.runtime=containerd", "node.podCIDR=", "scheduler.enabled=false"}, set...)})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	for set, want := range map[string]string{
		"node.enabled=false":          "node.enabled: is false",
		"node.podCIDR=10.244.9.0/24":  "node.podCIDR: want it empty",
		"controllers.enabled=[podgc]": "controllers.enabled: runs where a kernel does",
		"admission.enabled=[x]":       "admission.enabled: runs where a kernel does",
		"apiServers.enabled=[x]":      "apiServers.enabled: runs where a kernel does",
		"cloud.provider=local":        "cloud.provider: runs where a kernel does",
	} {
		if _, err := NewMachine(load(t, set), MachineOptions{}); !errors.As(err, new(config.Faults)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
	cfg := load(t)
	if err := os.MkdirAll(filepath.Join(cfg.DataDir, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(cfg.DataDir, "pki", "ca.key")
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewMachine(cfg, MachineOptions{}); err == nil || !strings.Contains(err.Error(), "is a kernel's") {
		t.Errorf("with a kernel's directory: %v", err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	held, err := lockMachine(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewMachine(cfg, MachineOptions{}); err == nil || !strings.Contains(err.Error(), "another pintle node runs") {
		t.Errorf("with a directory in use: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	// The lock is given up with a fault, which here is a bundle that is not there.
	cfg.Plugins.Bundles = []config.Bundle{{Name: "absent"}}
	for range 2 {
		if _, err := NewMachine(cfg, MachineOptions{}); err == nil || strings.Contains(err.Error(), "another pintle node runs") {
			t.Errorf("without a bundle: %v", err)
		}
	}
}
