package plugin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// twoProfiles are two profiles over one bundle, of which the second configures
// LeastCPU apart.
func twoProfiles(t testing.TB, transport, shared, apart string) Config {
	cfg := testConfig(t, transport, "FitsCPU")
	if shared != "" {
		cfg.Bundles[0].Config = []byte(`{"LeastCPU": ` + shared + `}`)
	}
	second := cfg.Profiles[0]
	second.SchedulerName = "packer"
	if apart != "" {
		second.Config = map[string]json.RawMessage{"LeastCPU": []byte(apart)}
	}
	cfg.Profiles = append(cfg.Profiles, second)
	return cfg
}

func rawScore(t *testing.T, h *Host, profile string) int64 {
	t.Helper()
	p := h.Source(profile).Policy()
	if err := p.Apply(t.Context(), replica(1, 1)); err != nil {
		t.Fatal(err)
	}
	waitPrepared(t, p)
	out := make([]int64, 1)
	if err := p.Score(t.Context(), 0, 7, []uint32{0}, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// A plugin that a profile configures apart answers each profile by its own
// configuration, in one guest with one replica; a change reaches it live.
func TestProfileConfiguration(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			source := &testSource{}
			source.set(replica(1, 1))
			h := runHost(t, twoProfiles(t, transport, "2", "3"), source)
			if a, b := rawScore(t, h, "s"), rawScore(t, h, "packer"); a != 2*4000+1 || b != 3*4000+1 {
				t.Errorf("scores %d and %d, want 8001 and 12001", a, b)
			}
			if n := len(h.present().units); n != 1 {
				t.Errorf("%d units, want one", n)
			}
			guests := h.present().units[0].started
			for _, c := range []struct {
				shared, apart string
				first, second int64
				refused       string
			}{
				{shared: "2", apart: "5", first: 2, second: 5},
				{shared: "4", apart: "5", first: 4, second: 5},
				{shared: "4", apart: `"many"`, first: 4, second: 5, refused: "configure LeastCPU"},
				{shared: "4", first: 4, second: 4},
				{shared: "4", apart: "6", first: 4, second: 6},
			} {
				cfg := twoProfiles(t, transport, c.shared, c.apart)
				cfg.RunDirectory = h.present().base.RunDirectory
				done := make(chan error, 1)
				before := h.Source("packer").Policy()
				go func() { done <- h.Reconfigure(cfg) }()
				for limit := time.Now().Add(2 * time.Minute); h.Source("packer").Policy() == before && len(done) == 0 && time.Now().Before(limit); {
					time.Sleep(time.Millisecond)
				}
				for _, name := range []string{"s", "packer"} {
					p := h.Source(name).Policy()
					if err := p.Apply(t.Context(), replica(1, 1)); err != nil {
						t.Fatal(err)
					}
					p.(contractv1.Preparing).Prepared(t.Context())
				}
				err := <-done
				if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
					t.Fatalf("%+v: %v", c, err)
				}
				if a, b := rawScore(t, h, "s"), rawScore(t, h, "packer"); a != c.first*4000+1 || b != c.second*4000+1 {
					t.Errorf("%+v: scores %d and %d", c, a, b)
				}
			}
			if now := h.present().units[0].started; now > guests+1 {
				t.Errorf("%d guests were started after %d: configurations reach the running one", now, guests)
			}
			// Calls of both are the plugin's.
			if calls := h.present().units[0].stats["LeastCPU"].calls.Load(); calls < 4 {
				t.Errorf("%d calls counted", calls)
			}
		})
	}
}

// What cannot be configured apart is refused by name, at the start.
func TestProfileConfigurationRefused(t *testing.T) {
	for _, c := range []struct{ plugin, config, want string }{
		{"FitsCPU", `{}`, "scheduler profile packer configures plugin FitsCPU apart, and its build has one instance for all profiles"},
		{"Nothing", `{}`, `scheduler profile packer: config: no loaded bundle has plugin "Nothing"`},
	} {
		cfg := twoProfiles(t, manifest.TransportWASM, "", "")
		cfg.Profiles[1].Config = map[string]json.RawMessage{c.plugin: []byte(c.config)}
		h, err := New(cfg, Deps{})
		if err == nil {
			err = h.Run(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.plugin, err, c.want)
		}
	}
}

// BenchmarkInstanceMemory reports what a module of 5,000 nodes holds, and what an
// instance adds that was asked about every node.
func BenchmarkInstanceMemory(b *testing.B) {
	for _, apart := range []string{"", "3"} {
		b.Run("apart="+apart, func(b *testing.B) {
			source := &testSource{}
			source.set(replica(5000, 1))
			h := runHost(b, twoProfiles(b, manifest.TransportWASM, "2", apart), source)
			out := make([]int64, 5000)
			for b.Loop() {
				for _, name := range []string{"s", "packer"} {
					p := h.Source(name).Policy()
					if err := p.Apply(b.Context(), replica(5000, 1)); err != nil {
						b.Fatal(err)
					}
					for !p.(contractv1.Preparing).Prepared(b.Context()) {
						time.Sleep(time.Millisecond)
					}
					if err := p.Score(b.Context(), 0, 7, indexes(5000), out); err != nil {
						b.Fatal(err)
					}
				}
			}
			u := h.present().units[0]
			u.mu.Lock()
			used, _ := u.guest.(guest.Sized).Usage()
			b.ReportMetric(float64(used)/(1<<20), "MiB")
			u.mu.Unlock()
		})
	}
}
