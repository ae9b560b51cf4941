package containerd

import (
	"bytes"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	nft "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/runtimes/containerd/podnat"
)

// TestMend: rules that somebody deleted are there after the next look, which is said once;
// ports of sandboxes without an address go at the start, and all goes at the stop.
func TestMend(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a network namespace")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("network namespaces are not available: %v", err)
	}
	conn, err := nft.New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.GetGen(); err != nil {
		t.Skipf("nftables is not available: %v", err)
	}
	tables := func(want ...string) {
		t.Helper()
		list, err := conn.ListTables()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, l := range list {
			names = append(names, l.Name)
		}
		slices.Sort(names)
		if !slices.Equal(names, want) {
			t.Errorf("tables %q, want %q", names, want)
		}
	}
	data := t.TempDir()
	l := newLayout(data, data, "")
	for _, dir := range []string{l.ports, filepath.Join(l.ipam, networkName)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	tr := newTranslation("none0", []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}, nil, l, slog.New(slog.NewTextHandler(&log, nil)))
	for id, ip := range map[string]string{"living": "10.244.0.2", "gone": "10.244.0.3"} {
		s := podnat.Sandbox{ID: id, Interface: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix(ip + "/24")}, Ports: []podnat.Port{{HostPort: 80, ContainerPort: 80, Protocol: "tcp"}}}
		if err := tr.ports.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(l.ipam, networkName, "10.244.0.2"), []byte("living\r\neth0"), 0o600); err != nil {
		t.Fatal(err)
	}
	tr.start(t.Context())
	tables("none0-hostports", "none0-masquerade")
	if ids, err := tr.ports.Sandboxes(); err != nil || !slices.Equal(ids, []string{"living"}) {
		t.Errorf("sandboxes %v, %v", ids, err)
	}
	tr.mend() // notes what the start wrote
	conn.FlushRuleset()
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		tr.mend()
		tables("none0-hostports", "none0-masquerade")
	}
	if n := strings.Count(log.String(), "put right"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
	// A plugin that was killed has removed the record and not the rules.
	if err := os.Remove(filepath.Join(l.ports, "living,eth0.json")); err != nil {
		t.Fatal(err)
	}
	tr.mend()
	tables("none0-masquerade")
	if err := tr.clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	tables()
}
