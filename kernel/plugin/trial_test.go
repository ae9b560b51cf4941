package plugin

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// What an object asks for is tried before it is written: by copies that nobody else
// asks, also when no pod was seen yet.
func TestTrial(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		for seen, source := range map[string]*testSource{"no pod": {}, "pods": {delta: replica(5, 1)}} {
			t.Run(transport+"/"+seen, func(t *testing.T) {
				cfg := testConfig(t, transport, "FitsCPU")
				cfg.Bundles[0].Config = []byte(`{"LeastCPU": 2}`)
				cfg.CallTimeout = 2 * time.Second // what is tried may hang
				h := runHost(t, cfg, source)
				u := h.present().units[0]
				for _, c := range []struct {
					name, plugin string
					change       func(*v1alpha1.PluginSpec)
					want         string
				}{
					{"a predicate that always breaks", "LoopsForEver", func(s *v1alpha1.PluginSpec) { s.Enabled = ptr.To(true) }, "plugin LoopsForEver: version 1.0.0 of bundle guest broke when it was tried"},
					{"a sound one", "MatchesLabels", func(s *v1alpha1.PluginSpec) { s.Enabled = ptr.To(true) }, ""},
					{"a configuration that it refuses", "LeastCPU", func(s *v1alpha1.PluginSpec) { s.Config = &runtime.RawExtension{Raw: []byte(`"many"`)} }, "configure LeastCPU"},
					{"one that it takes", "LeastCPU", func(s *v1alpha1.PluginSpec) { s.Config = &runtime.RawExtension{Raw: []byte(`7`)} }, ""},
					{"nothing to try", "LeastCPU", func(s *v1alpha1.PluginSpec) { s.Weight = ptr.To[int64](7) }, ""},
				} {
					old := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: c.plugin}, Spec: *h.present().specs[c.plugin]}
					now := old.DeepCopy()
					c.change(&now.Spec)
					list := h.Admit(t.Context(), old, now)
					switch {
					case c.want == "" && len(list) > 0, c.want != "" && len(list) == 0:
						t.Errorf("%s: %v, want %q", c.name, list, c.want)
					case c.want != "" && !strings.Contains(list[0].Error(), c.want):
						t.Errorf("%s: %v, want %q", c.name, list[0], c.want)
					}
				}
				u.mu.Lock()
				defer u.mu.Unlock()
				if u.started != 1 || u.guest == nil || u.revision != 0 {
					t.Errorf("the unit in force was started %d times, runs %t, was configured anew %d times: a trial leaves it alone", u.started, u.guest != nil, u.revision)
				}
			})
		}
	}
}

// A change of the configuration file that enables what always traps is refused, and
// what was in force goes on.
func TestConfigurationThatEnablesIsTried(t *testing.T) {
	cfg := testConfig(t, manifest.TransportWASM, "FitsCPU")
	h := runHost(t, cfg, nil)
	next := cfg
	next.Profiles = []Profile{cfg.Profiles[0]}
	next.Profiles[0].Predicates = []string{"FitsCPU", "Recurses"}
	if err := h.Reconfigure(next); err == nil || !strings.Contains(err.Error(), "plugin Recurses: version 1.0.0 of bundle guest broke when it was tried") {
		t.Fatalf("error %v, want that Recurses broke", err)
	}
	if h.present().enabled("Recurses") {
		t.Error("Recurses is enabled")
	}
}

// A process that serves nothing of the scheduler's is tried without the replica.
func TestTrialWithoutScheduling(t *testing.T) {
	cfg := testConfig(t, manifest.TransportWASM, "FitsCPU")
	cfg.Bundles = append(cfg.Bundles, BundleConfig{Name: "reviewer"})
	cfg.Admission = []string{"reviewer"}
	h := runHost(t, cfg, &testSource{delta: replica(5, 1)})
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.PluginSpec)
		want   string
	}{
		{"a configuration that it takes", func(s *v1alpha1.PluginSpec) { s.Config = &runtime.RawExtension{Raw: []byte(`7`)} }, ""},
		{"one that it refuses", func(s *v1alpha1.PluginSpec) { s.Config = &runtime.RawExtension{Raw: []byte(`1`)} }, "nobody configures a 1"},
		{"another limit, by which it is started anew", func(s *v1alpha1.PluginSpec) { s.Timeout = &metav1.Duration{Duration: 7 * time.Second} }, ""},
	} {
		old := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "reviewer"}, Spec: *h.present().specs["reviewer"]}
		now := old.DeepCopy()
		c.change(&now.Spec)
		list := h.Admit(t.Context(), old, now)
		switch {
		case c.want == "" && len(list) > 0, c.want != "" && len(list) == 0:
			t.Errorf("%s: %v, want %q", c.name, list, c.want)
		case c.want != "" && !strings.Contains(list[0].Error(), c.want):
			t.Errorf("%s: %v, want %q", c.name, list[0], c.want)
		}
	}
}
