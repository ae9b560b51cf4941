package reconcile

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"pintle.dev/pintle/e2e/cluster"
)

var (
	upstreamMode = flag.String("upstream", "", "what TestUpstream does with the recordings: check or write")
	only         = flag.String("scripts", "", "names of the scripts to play, with commas between; empty: all")
)

const (
	// stepLimit is how long a step may take until its objects are as recorded.
	stepLimit = 4 * time.Minute
	// quietFor is how long nothing has to change before a step is recorded.
	quietFor = 4 * time.Second
	// settle is how long the objects have to stay as recorded: what is wrong often comes
	// late. Nothing fails by it.
	settle    = 300 * time.Millisecond
	tickEvery = 50 * time.Millisecond
	// atOnce is how many scripts play at a time: they wait most of the time.
	atOnce = "12"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestControllers plays the scripts against Pintle's controllers: objects, conditions and
// events are those of kube-controller-manager, but for the differences that are listed.
func TestControllers(t *testing.T) {
	compare(t, newKernel(t), readDifferences(t))
}

// TestUpstream plays them against kube-controller-manager, with -upstream.
func TestUpstream(t *testing.T) {
	switch *upstreamMode {
	case "check":
		compare(t, newUpstream(t), nil)
	case "write":
		w := newUpstream(t)
		t.Run("scripts", func(t *testing.T) {
			for _, one := range chosen(t) {
				t.Run(one.name, func(t *testing.T) {
					t.Parallel()
					r := newRecording()
					if err := w.play(t.Context(), one, r.take); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(recordingPath(one.name), []byte(r.format()), 0o644); err != nil {
						t.Fatal(err)
					}
				})
			}
		})
	case "":
		t.Skip("kube-controller-manager runs by make test-peer and make controller-goldens")
	default:
		t.Fatalf("-upstream=%s: it is check or write", *upstreamMode)
	}
}

// chosen are the scripts to play. Those that wait longest begin first.
func chosen(t *testing.T) []script {
	t.Helper()
	all := readScripts(t)
	slices.SortStableFunc(all, func(a, b script) int { return cmp.Compare(b.waits(), a.waits()) })
	if *only == "" {
		return all
	}
	var some []script
	for _, name := range strings.Split(*only, ",") {
		before := len(some)
		for _, one := range all {
			if one.name == name {
				some = append(some, one)
			}
		}
		if len(some) == before {
			t.Fatalf("there is no script %q", name)
		}
	}
	return some
}

// compare plays the scripts and compares with what was recorded.
func compare(t *testing.T, w *world, known []difference) {
	t.Helper()
	applied := make([]bool, len(known))
	var mu sync.Mutex
	scripts := chosen(t)
	t.Run("scripts", func(t *testing.T) {
		for _, one := range scripts {
			t.Run(one.name, func(t *testing.T) {
				t.Parallel()
				r := readRecording(t, one.name)
				err := w.play(t.Context(), one, func(ctx context.Context, s *scene, now step, answers state) error {
					mu.Lock()
					want := expect(r.states[now.Step], one.name, now.Step, known, applied)
					mu.Unlock()
					return s.awaitState(ctx, now, want, answers)
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	})
	if *only != "" || t.Failed() {
		return
	}
	for i, d := range known {
		if !applied[i] {
			t.Errorf("this difference is listed, and upstream has no such value any more: %+v", d)
		}
	}
}

// awaitState waits until the objects are as they should be.
func (s *scene) awaitState(ctx context.Context, now step, want, answers state) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepLimit, errors.New("the objects are not as recorded"))
	defer cancel()
	right := false
	for {
		if now.Run {
			if err := s.tick(ctx); err != nil {
				return err
			}
		}
		have := s.render()
		maps.Copy(have, answers)
		was := right
		if right = maps.Equal(have, want); right && was {
			return nil
		}
		wait := tickEvery
		if right {
			wait = settle
		}
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("%w: from what was recorded to what is here:\n%s", err, strings.Join(differing(want, have), "\n"))
		}
	}
}

// differing are the lines of both states that differ.
func differing(want, have state) []string {
	var lines []string
	for _, line := range changes(want, have) {
		key, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(line, "+ "), "- "), "\t")
		if old, ok := want[key]; ok {
			lines = append(lines, "recorded: "+key+"\t"+old)
		}
		if value, ok := have[key]; ok {
			lines = append(lines, "here:     "+key+"\t"+value)
		}
	}
	return lines
}

// take is the judge that records: it waits until nothing changes any more.
func (r *recording) take(ctx context.Context, s *scene, now step, answers state) error {
	quiet := max(quietFor, now.Quiet.Duration)
	ctx, cancel := context.WithTimeoutCause(ctx, 5*stepLimit, errors.New("the objects change all the time"))
	defer cancel()
	var have state
	seen, since := -1, time.Now()
	for {
		if now.Run {
			if err := s.tick(ctx); err != nil {
				return err
			}
		}
		if n := s.changed(); n != seen {
			seen = n
			if fresh := s.render(); !maps.Equal(have, fresh) {
				have, since = fresh, time.Now()
			}
		}
		if _, ok := have[now.Until]; time.Since(since) > quiet && (ok || now.Until == "") {
			break
		}
		if err := pause(ctx, tickEvery); err != nil {
			return err
		}
	}
	maps.Copy(have, answers)
	r.add(now.Step, have)
	return nil
}

// follow makes a world of a control plane, which ends with the test.
func follow(t *testing.T, cfg *rest.Config) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := newWorld(ctx, cfg)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		w.ended()
	})
	return w
}

// newKernel starts Pintle with the controllers of configs/standalone.yaml, and neither
// scheduler nor node.
func newKernel(t *testing.T) *world {
	t.Helper()
	bin, err := cluster.Bin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "pintle")); err != nil {
		t.Fatalf("%v; run make build", err)
	}
	repo, err := cluster.Repository()
	if err != nil {
		t.Fatal(err)
	}
	var standalone struct{ Controllers struct{ Enabled []string } }
	readYAML(t, filepath.Join(repo, "configs", "standalone.yaml"), &standalone)
	var manifest struct{ Plugins []struct{ Name string } }
	readYAML(t, filepath.Join(bin, "plugins", "controllers", "manifest.yaml"), &manifest)
	var enabled []string
	for _, one := range manifest.Plugins { // other bundles have controllers too
		if one.Name != "hostpath-provisioner" && slices.Contains(standalone.Controllers.Enabled, one.Name) {
			enabled = append(enabled, one.Name)
		}
	}
	if len(enabled) < 25 {
		t.Fatalf("only %d controllers run: %v", len(enabled), enabled)
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "config.pintle.dev/v1alpha1", "kind": "KernelConfiguration", "dataDir": ".data-reconcile",
		"api": map[string]any{"bindAddress": "127.0.0.1"},
		"plugins": map[string]any{"bundles": []any{map[string]any{"name": "controllers", "config": map[string]any{
			"root-ca":                 map[string]any{"caFile": "${dataDir}/pki/ca.crt"},
			"horizontalpodautoscaler": map[string]any{"horizontalPodAutoscalerSyncPeriod": autoscalerPeriod},
			"nodelifecycle":           map[string]any{"nodeMonitorPeriod": monitorPeriod, "nodeMonitorGracePeriod": monitorGrace},
		}}}},
		"controllers": map[string]any{"enabled": enabled},
		"scheduler":   map[string]any{"enabled": false},
		"node":        map[string]any{"enabled": false},
	})
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Options{Name: "reconcile", Config: config, SuperAdmin: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log ends with:\n%s", c.Log(60))
		}
		if err := c.Stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	_, cfg, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	return follow(t, cfg)
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// What both sides are configured with, so that scripts do not wait for minutes. A node
// is silent for longer than a busy machine may forget a heartbeat.
const (
	autoscalerPeriod = "2s"
	monitorPeriod    = "1s"
	monitorGrace     = "40s"
)
