package plugin

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/seal"
)

// A plugin that was built against the first contract still runs, over both
// transports: its source, with the sdk of that time, is in testdata/contract1.
func TestContractOneRuns(t *testing.T) {
	source, err := filepath.Abs("testdata/contract1")
	if err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "contract1")
	if err := os.MkdirAll(bundle, 0o755); err != nil {
		t.Fatal(err)
	}
	build := func(out string, env []string, args ...string) {
		t.Helper()
		cmd := exec.Command("go", append(append([]string{"build", "-ldflags=-s -w"}, args...), "-o", filepath.Join(bundle, out), "./guest")...)
		cmd.Dir = source
		cmd.Env = append(append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0"), env...)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", out, err, output)
		}
	}
	build("contract1.wasm", []string{"GOOS=wasip1", "GOARCH=wasm"}, "-buildmode=c-shared")
	build("contract1", nil)
	text, err := os.ReadFile(filepath.Join(source, manifest.File))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, manifest.File), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := seal.Seal(t.Context(), bundle); err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			cfg := testConfig(t, transport, "Quiet")
			cfg.Directories = []string{filepath.Dir(bundle)}
			cfg.Bundles = []BundleConfig{{Name: "contract1", Transport: transport}}
			cfg.Profiles[0].Priorities = []WeightedPriority{{Name: "Index", Weight: 1}}
			h := runHost(t, cfg, nil)
			p := h.Source("s").Policy()
			if err := p.Apply(t.Context(), replica(8, 1)); err != nil {
				t.Fatal(err)
			}
			if transport == manifest.TransportProcess && processOf(t, p.(*Policy)).Questions != nil {
				t.Error("it is asked at a socket that it does not know")
			}
			verdicts, scores := make([]uint32, 8), make([]int64, 8)
			if err := p.Filter(t.Context(), 0, 7, indexes(8), verdicts); err != nil {
				t.Fatal(err)
			}
			if err := p.Score(t.Context(), 0, 7, indexes(8), scores); err != nil {
				t.Fatal(err)
			}
			if verdicts[0] != 0 || verdicts[3] == 0 || !slices.Equal(p.Reasons(0, verdicts[3]), []string{"node(s) were quiet"}) || scores[7] != 7 {
				t.Errorf("verdicts %v, scores %v", verdicts, scores)
			}
		})
	}
}

// What speaks a contract that this kernel does not is refused, in one line with
// both versions, before anything else is asked of it.
func TestForeignContractIsRefused(t *testing.T) {
	former := guest.Contract
	t.Cleanup(func() { guest.Contract = former })
	for _, tc := range []struct {
		bundle string
		used   Profile
		spoken guest.Versions
		want   string
	}{
		{"cycle", Profile{SchedulerName: "s", Predicates: []string{"Journal"}}, guest.Versions{Oldest: 1, Newest: 1}, "too new: it speaks contract version 2, this kernel 1;"},
		{"guest", Profile{SchedulerName: "s", Priorities: []WeightedPriority{{Name: "LeastCPU", Weight: 1}}}, guest.Versions{Oldest: 98, Newest: 99}, "too old: it speaks contract version 4, this kernel 98 to 99;"},
	} {
		guest.Contract = tc.spoken
		for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
			cfg := testConfig(t, transport)
			cfg.Bundles = []BundleConfig{{Name: tc.bundle, Transport: transport}}
			cfg.Profiles = []Profile{tc.used}
			h, err := New(cfg, Deps{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // one that is accepted would run on
			err = h.Run(ctx)
			cancel()
			if err == nil || !containsLine(err, tc.want) {
				t.Errorf("%s %s: %v, want one line with %q", tc.bundle, transport, err, tc.want)
			}
		}
	}
}

func containsLine(err error, want string) bool {
	return strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "\n")
}
