package containerd

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSplitRule(t *testing.T) {
	for rule, want := range map[string][]string{
		`PREROUTING -m comment --comment "a b" -j X`:   {"PREROUTING", "-m", "comment", "--comment", "a b", "-j", "X"},
		`-A P --comment "name: \"n\" id: \"a\\b\"" -j`: {"-A", "P", "--comment", `name: "n" id: "a\b"`, "-j"},
		`-N ""`: {"-N", ""},
		``:      nil,
	} {
		if got := splitRule(rule); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", rule, got, want)
		}
	}
}

// masqueraded are the rules of the CNI plugin bridge for a sandbox.
func masqueraded(network, id, chain, address, subnet string) []string {
	comment := `-m comment --comment 'name: "` + network + `" id: "` + id + `"'`
	return []string{
		"-N " + chain,
		"-A " + chain + " -d " + subnet + " " + comment + " -j ACCEPT",
		"-A " + chain + " ! -d 224.0.0.0/4 " + comment + " -j MASQUERADE",
		"-A POSTROUTING -s " + address + "/32 " + comment + " -j " + chain,
	}
}

// Masquerading of sandboxes without an address goes, and nothing else does: after a
// kernel that was killed while it deleted pods, whose removal was cut short.
func TestRemoveMasquerade(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a network namespace")
	}
	if _, ok := openNAT(); !ok {
		t.Skip("iptables is not installed")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("network namespaces are not available: %v", err)
	}
	iptables := func(rule string) {
		t.Helper()
		if out, err := exec.Command("sh", "-c", "iptables -w 5 -t nat "+rule).CombinedOutput(); err != nil {
			t.Skipf("iptables %s: %v: %s", rule, err, out)
		}
	}
	const subnet = "10.244.0.0/24"
	for _, rules := range [][]string{
		masqueraded("pintle", "living", "CNI-aa", "10.244.0.2", subnet),
		masqueraded("pintle", "gone", "CNI-bb", "10.244.0.3", subnet),
		masqueraded("pintle", "cut", "CNI-cc", "10.244.0.4", subnet)[:3],  // its jump is gone already
		masqueraded("pintle", "bare", "CNI-dd", "10.244.0.5", subnet)[:1], // no rule says whose it is
		masqueraded("pintle", "neighbour", "CNI-ee", "10.245.0.3", "10.245.0.0/24"),
		masqueraded("other", "gone", "CNI-ff", "10.244.0.3", subnet),
		{"-N MINE", "-A POSTROUTING -s 10.244.0.3/32 -m comment --comment 'a \"b\" \\c' -j MINE"},
	} {
		for _, r := range rules {
			iptables(r)
		}
	}
	ipam := t.TempDir()
	dir := filepath.Join(ipam, networkName)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"10.244.0.2": "living\r\neth0", "last_reserved_ip.0": "10.244.0.5", "lock": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := func(want ...string) {
		t.Helper()
		out, err := exec.Command("iptables", "-w", "5", "-t", "nat", "-S").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var chains []string
		for line := range strings.Lines(string(out)) {
			if chain, is := strings.CutPrefix(strings.TrimSpace(line), "-N "); is {
				chains = append(chains, chain)
			}
		}
		slices.Sort(chains)
		if !slices.Equal(chains, want) {
			t.Errorf("chains %q, want %q; rules:\n%s", chains, want, out)
		}
		for _, chain := range want {
			if n := strings.Count(string(out), "-j "+chain+"\n"); chain != "CNI-dd" && !bareChain.MatchString(chain) && n != 1 {
				t.Errorf("%d jumps to %s; rules:\n%s", n, chain, out)
			}
		}
	}
	pods := netip.MustParsePrefix(subnet)
	for range 2 { // the second finds nothing to do
		if err := removeMasquerade(t.Context(), pods, ipam); err != nil {
			t.Fatal(err)
		}
		left("CNI-aa", "CNI-dd", "CNI-ee", "CNI-ff", "MINE")
	}
	if err := removeMasquerade(t.Context(), pods, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	left("CNI-dd", "CNI-ee", "CNI-ff", "MINE")

	for _, r := range masqueraded("other", "being made", "CNI-0123456789abcdef01234567", "10.9.0.3", "10.9.0.0/24")[:2] {
		iptables(r)
	}
	iptables("-N CNI-76543210fedcba9876543210")
	iptables("-N CNI-HOSTPORT-DNAT")
	iptables("-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT")
	for range 2 {
		if err := clearNAT(t.Context(), pods, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		left("CNI-0123456789abcdef01234567", "CNI-dd", "CNI-ee", "CNI-ff", "MINE")
	}
}
