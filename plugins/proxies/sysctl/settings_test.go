package sysctl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSettings: what a cleanup puts back are the values from before the first
// start, however often the process was killed since (PRX-1).
func TestSettings(t *testing.T) {
	proc := t.TempDir()
	s := Settings{Proc: proc, StateDirectory: filepath.Join(t.TempDir(), "state")}
	set := func(name, value string) {
		t.Helper()
		file := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, want map[string]string) {
		t.Helper()
		for name, value := range want {
			got, err := os.ReadFile(filepath.Join(proc, name))
			if err != nil || strings.TrimSpace(string(got)) != value {
				t.Errorf("%s: %s is %q (%v), want %q", when, name, got, err, value)
			}
		}
	}
	tune := func(localhost bool) {
		t.Helper()
		if err := s.Set(Needs{Localhost: localhost}); err != nil {
			t.Fatal(err)
		}
	}
	const forward, localnet, bridge = "net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "net/bridge/bridge-nf-call-iptables"
	set(forward, "0")
	set(localnet, "0")
	tune(false)
	check("first start", map[string]string{forward: "1", localnet: "0"})
	if _, err := os.Stat(filepath.Join(proc, bridge)); err == nil {
		t.Error("a switch that the kernel does not have was made")
	}
	// Killed; the next start wants one switch more, and a third has come.
	set(bridge, "0")
	tune(true)
	check("second start", map[string]string{forward: "1", localnet: "1", bridge: "1"})
	// Killed again; somebody set a switch back meanwhile: it is ours to set,
	// and the value to put back is still the first.
	set(forward, "2")
	tune(true)
	check("third start", map[string]string{forward: "1", localnet: "1", bridge: "1"})
	if err := s.CloseLocalhost(); err != nil {
		t.Fatal(err)
	}
	check("without node ports at 127.0.0.1", map[string]string{forward: "1", localnet: "0", bridge: "1"})
	if err := s.Restore(); err != nil {
		t.Fatal(err)
	}
	check("cleanup", map[string]string{forward: "0", localnet: "0", bridge: "0"})
	if err := s.Restore(); err != nil {
		t.Errorf("a second cleanup: %v", err)
	}
	// After a cleanup everything begins anew.
	set(forward, "1")
	tune(true)
	if err := s.Restore(); err != nil {
		t.Fatal(err)
	}
	check("second cleanup", map[string]string{forward: "1", localnet: "0", bridge: "0"})
	// What cannot be read keeps no proxy from starting.
	if err := os.WriteFile(filepath.Join(s.StateDirectory, sysctlFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	tune(true)
	check("start after a torn file", map[string]string{forward: "1", localnet: "1", bridge: "1"})
}

// TestIPv6: its switches are set where pods have IPv6 alone, and put back with the others.
func TestIPv6(t *testing.T) {
	proc := t.TempDir()
	s := Settings{Proc: proc, StateDirectory: t.TempDir()}
	files := map[string]string{"net/ipv4/ip_forward": "0", "net/ipv6/conf/all/forwarding": "0", "net/bridge/bridge-nf-call-ip6tables": "0"}
	for name, value := range files {
		file := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, want map[string]string) {
		t.Helper()
		for name, value := range want {
			if got, err := os.ReadFile(filepath.Join(proc, name)); err != nil || string(got) != value {
				t.Errorf("%s: %s is %q (%v), want %s", when, name, got, err, value)
			}
		}
	}
	if err := s.Set(Needs{}); err != nil {
		t.Fatal(err)
	}
	check("without IPv6", map[string]string{"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "0", "net/bridge/bridge-nf-call-ip6tables": "0"})
	if err := s.Set(Needs{IPv6: true}); err != nil {
		t.Fatal(err)
	}
	check("with it", map[string]string{"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1", "net/bridge/bridge-nf-call-ip6tables": "1"})
	if err := s.Restore(); err != nil {
		t.Fatal(err)
	}
	check("after it", files)
}
