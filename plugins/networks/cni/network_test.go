package cni

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/sdk/network"
)

// TestNetwork: the runtime is given the folders, and the status says whether there is a configuration.
func TestNetwork(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "net.d")
	n := New()
	if s := n.Status(); s.Ready || s.Message != network.ErrNotStarted.Error() {
		t.Errorf("before a start: %+v", s)
	}
	pods, err := n.Start(t.Context(), network.Options{Config: []byte(`{"configurations": "` + dir + `", "plugins": "/opt/other"}`)})
	if err != nil || pods != (network.Pods{CNIConfigurations: dir, CNIPlugins: "/opt/other"}) {
		t.Fatalf("%+v, %v", pods, err)
	}
	if s := n.Status(); s.Ready || !strings.Contains(s.Message, "no CNI configuration") {
		t.Errorf("an empty folder: %+v", s)
	}
	for _, name := range []string{"README", "10-x.conflist.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s := n.Status(); s.Ready {
		t.Errorf("other files: %+v", s)
	}
	if err := os.WriteFile(filepath.Join(dir, "20-mine.conflist"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Apply(t.Context(), &network.Diff{Generation: 3}); err != nil {
		t.Fatal(err)
	}
	if s := n.Status(); !s.Ready || !strings.HasSuffix(s.Message, "/20-mine.conflist") || s.Generation != 3 {
		t.Errorf("a configuration: %+v", s)
	}
	if err := n.Stop(t.Context(), true); err != nil || n.Status().Ready {
		t.Errorf("%v, %+v", err, n.Status())
	}
	if _, err := os.Stat(filepath.Join(dir, "20-mine.conflist")); err != nil {
		t.Errorf("a stop took the operator's file away: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		`{"configurations": "etc"}`: "absolute path", `{"plugins": "/a/../b"}`: "absolute path", `{"dir": "/a"}`: "unknown field", `{`: "unexpected EOF",
	} {
		if err := New().Probe(t.Context(), []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := New().Probe(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
