package containerd

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

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

// mappedRules are the rules of the CNI plugin portmap for a sandbox's ports.
func mappedRules(network, id, chain string, dnat ...string) []string {
	rules := []string{
		"-N " + chain,
		`-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment 'dnat name: "` + network + `" id: "` + id + `"' -m multiport --destination-ports 80,81 -j ` + chain,
		`-A CNI-HOSTPORT-DNAT -p udp -m comment --comment 'dnat name: "` + network + `" id: "` + id + `"' -m multiport --destination-ports 53 -j ` + chain,
		"-A " + chain + " -s 10.244.0.0/24 -p tcp -m tcp --dport 80 -j CNI-HOSTPORT-SETMARK",
	}
	for _, d := range dnat {
		rules = append(rules, "-A "+chain+" "+d)
	}
	return rules
}

// TestTakeOver: after an upgrade host ports of sandboxes that live are ours, and of the former
// rules those of others stay.
func TestTakeOver(t *testing.T) {
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
	shared := []string{
		"-N CNI-HOSTPORT-DNAT", "-N CNI-HOSTPORT-SETMARK", "-N CNI-HOSTPORT-MASQ", "-A CNI-HOSTPORT-SETMARK -j MARK --or-mark 0x2000",
		"-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT", "-A POSTROUTING -j CNI-HOSTPORT-MASQ",
	}
	for _, rules := range [][]string{
		shared,
		masqueraded("pintle", "living", "CNI-aa", "10.244.0.2", subnet),
		masqueraded("pintle", "gone", "CNI-bb", "10.244.0.3", subnet),
		masqueraded("pintle", "cut", "CNI-cc", "10.244.0.4", subnet)[:3],  // its jump is gone already
		masqueraded("pintle", "bare", "CNI-dd", "10.244.0.5", subnet)[:1], // no rule says whose it is
		masqueraded("pintle", "neighbour", "CNI-ee", "10.245.0.3", "10.245.0.0/24"),
		masqueraded("other", "gone", "CNI-ff", "10.244.0.3", subnet),
		{"-N MINE", "-A POSTROUTING -s 10.244.0.3/32 -m comment --comment 'a \"b\" \\c' -j MINE"},
		masqueraded("other", "being made", "CNI-0123456789abcdef01234567", "10.9.0.3", "10.9.0.0/24")[:2],
		{"-N CNI-76543210fedcba9876543210"},
		mappedRules("pintle", "living", "CNI-DN-aa", "-p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.0.2:8080",
			"-d 192.0.2.1/32 -p tcp -m tcp --dport 81 -j DNAT --to-destination 10.244.0.2:8081", "-p udp -m udp --dport 53 -j DNAT --to-destination 10.244.0.2:53",
			"-p tcp -m tcp --dport 82 -j DNAT --to-destination 192.0.2.7:82"), // to no pod
		mappedRules("pintle", "gone", "CNI-DN-bb", "-p tcp -m tcp --dport 90 -j DNAT --to-destination 10.244.0.3:90"),
	} {
		for _, r := range rules {
			iptables(r)
		}
	}
	ipam, state := t.TempDir(), t.TempDir()
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
		slices.Sort(want)
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
	l := newLayout(state, state, "")
	l.ipam = ipam
	if err := errors.Join(os.MkdirAll(l.ports, 0o700), os.MkdirAll(l.cniConf, 0o700)); err != nil {
		t.Fatal(err)
	}
	network := filepath.Join(l.cniConf, "10-pintle.conflist")
	if err := os.WriteFile(network, []byte(`{"plugins": [{"type": "bridge", "ipMasq": true}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := keepFormer(network, l.former); err != nil {
		t.Fatal(err)
	}
	// Of another boot nothing is left.
	if err := os.WriteFile(l.former+"-before", []byte("another boot"), 0o600); err != nil {
		t.Fatal(err)
	}
	if here, err := formerHere(l.former + "-before"); here || err != nil {
		t.Errorf("a mark of another boot counts: %t, %v", here, err)
	}
	if here, err := formerHere(l.former); !here || err != nil {
		t.Errorf("the mark of this boot does not count: %t, %v", here, err)
	}
	tr := newTranslation("none0", []netip.Prefix{pods}, nil, l, slog.New(slog.DiscardHandler))
	for range 2 { // the second finds nothing to do
		tr.start(t.Context())
		left("CNI-0123456789abcdef01234567", "CNI-dd", "CNI-ee", "CNI-ff", "MINE")
		if _, err := os.Stat(l.former); err == nil {
			t.Error("the former network is remembered still")
		}
	}
	record, err := os.ReadFile(filepath.Join(l.ports, "living,eth0.json"))
	want := `{"id":"living","interface":"eth0","addresses":["10.244.0.2/24"],"ports":[{"hostPort":80,"containerPort":8080,"protocol":"tcp"},` +
		`{"hostPort":81,"hostIP":"192.0.2.1","containerPort":8081,"protocol":"tcp"},{"hostPort":53,"containerPort":53,"protocol":"udp"}],"turn":0}`
	if err != nil || string(record) != want {
		t.Errorf("record %s, %v; want %s", record, err, want)
	}
	if others, err := os.ReadDir(l.ports); err != nil || len(others) != 2 { // the record and the lock
		t.Errorf("records %v, %v", others, err)
	}
	// Without the tools a stop ends all the same.
	if err := errors.Join(os.WriteFile(network, []byte(`{"plugins": [{"type": "portmap"}]}`), 0o600), keepFormer(network, l.former)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := tr.takeOver(t.Context()); !errors.Is(err, errToolsGone) {
		t.Errorf("without the tools: %v", err)
	}
	if err := tr.clear(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTakeOverOthersPorts: portmap's shared chains stay where another network uses them.
func TestTakeOverOthersPorts(t *testing.T) {
	var rules [][]string
	for _, r := range append(append([]string{"-N CNI-HOSTPORT-DNAT", "-A PREROUTING -j CNI-HOSTPORT-DNAT"},
		mappedRules("pintle", "one", "CNI-DN-aa", "-p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.0.2:80")...),
		mappedRules("other", "two", "CNI-DN-bb", "-p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.0.3:80")...) {
		rules = append(rules, splitRule(strings.NewReplacer(`"`, `\"`, `'`, `"`).Replace(r)))
	}
	jumps, chains, sandboxes := mapped(rules, netip.MustParsePrefix("10.244.0.0/24"))
	if len(jumps) != 2 || !slices.Equal(chains, []string{"CNI-DN-aa"}) || len(sandboxes) != 1 || sandboxes[0].ID != "one" {
		t.Errorf("%q %q %+v", jumps, chains, sandboxes)
	}
	if toShared, shared := portmap(rules, chains); len(toShared)+len(shared) > 0 {
		t.Errorf("shared chains go: %q %q", toShared, shared)
	}
}
