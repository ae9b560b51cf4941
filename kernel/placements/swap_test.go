package placements

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/kernel/scheduler"
)

// versions finds the builds of the bundle parity.
type versions map[string]string

func (versions) Replaces(string) bool { return false }

func (versions) Builds(_, _ string) []string { return nil }

func (v versions) Find(_, version, _ string) (string, error) {
	if dir, ok := v[version]; ok {
		return dir, nil
	}
	return "", fmt.Errorf("version %s: %w", version, fs.ErrNotExist)
}

// buildParity makes two versions of the bundle: 1.0.0 takes the even nodes,
// 2.0.0 the odd ones.
func buildParity(t testing.TB, transport string) versions {
	t.Helper()
	out := versions{}
	for version, odd := range map[string]string{"1.0.0": "false", "2.0.0": "true"} {
		dir := filepath.Join(t.TempDir(), "parity")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		text := "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: parity\nversion: " + version +
			"\nplugins:\n- {name: FirstHalf, kind: predicate, scope: node}\n- {name: SecondHalf, kind: predicate, scope: node}\n"
		if err := os.WriteFile(filepath.Join(dir, "manifest.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		args, env := []string{"build", "-ldflags=-s -w -X main.odd=" + odd}, []string{"CGO_ENABLED=0"}
		if transport == manifest.TransportWASM {
			args, env = append(args, "-buildmode=c-shared", "-o", filepath.Join(dir, "parity.wasm")), []string{"GOOS=wasip1", "GOARCH=wasm"}
		} else {
			args = append(args, "-o", filepath.Join(dir, "parity"))
		}
		cmd := exec.CommandContext(t.Context(), "go", append(args, "./testdata/parity")...)
		cmd.Env = append(os.Environ(), env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, text)
		}
		if err := seal.Seal(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		out[version] = dir
	}
	return out
}

// growing is a source of pods that come by and by.
type growing struct{ watcher *watch.FakeWatcher }

func (g growing) List(metav1.ListOptions) (runtime.Object, error) {
	return &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (g growing) Watch(metav1.ListOptions) (watch.Interface, error) { return g.watcher, nil }

// IsWatchListSemanticsUnSupported tells reflectors to list first.
func (g growing) IsWatchListSemanticsUnSupported() bool { return true }

// swapping is a scheduler over the bundle parity, whose pods come by and by.
type swapping struct {
	*scheduler.Scheduler
	host *plugin.Host
	cfg  plugin.Config
	pods *watch.FakeWatcher

	mu    sync.Mutex
	bound map[string][]string // pod → the nodes it was bound to
	grew  chan struct{}
	// came is when pods came, where that is measured; slowest is the longest way
	// to a binding since it was reset.
	came    map[string]time.Time
	slowest time.Duration
}

func startSwapping(t testing.TB, transport string, nodes, pods int, tracer trace.Tracer) *swapping {
	t.Helper()
	s := &swapping{
		pods: watch.NewFakeWithChanSize(pods, false), bound: map[string][]string{}, grew: make(chan struct{}, 1),
		cfg: plugin.Config{
			Modules: testModules, StartTimeout: 2 * time.Minute, CallTimeout: 30 * time.Second, RunDirectory: t.TempDir(),
			Bundles:  []plugin.BundleConfig{{Name: "parity", Transport: transport, Version: "1.0.0"}},
			Profiles: []plugin.Profile{{SchedulerName: "s", Predicates: []string{"FirstHalf", "SecondHalf"}}},
		},
	}
	var err error
	if s.host, err = plugin.New(s.cfg, plugin.Deps{Log: slog.New(slog.DiscardHandler), Bundles: buildParity(t, transport)}); err != nil {
		t.Fatal(err)
	}
	list := &v1.NodeList{}
	for i := range nodes {
		n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), UID: types.UID(fmt.Sprint("n", i))}}
		n.Status.Capacity = quantities("cpu", 1000, "memory", "1000Gi", "pods", 100000)
		n.Status.Allocatable = n.Status.Capacity
		list.Items = append(list.Items, n)
	}
	s.Scheduler, err = scheduler.New(
		scheduler.Config{Seed: 42, AssumeTTL: time.Hour, Explain: 1 << 16},
		scheduler.Deps{
			Pods: growing{s.pods}, Nodes: fixed{list}, Objects: map[string]cache.ListerWatcher{},
			Profiles: map[string]scheduler.PolicySource{"s": s.host.Source("s")}, Bind: s.bind, Tracer: tracer,
		})
	if err != nil {
		t.Fatal(err)
	}
	s.host.SetReplicaSource(s.Scheduler)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- s.host.Run(ctx) }()
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	select {
	case <-s.host.Ready():
	case <-time.After(2 * time.Minute):
		t.Fatal("the host is not ready")
	}
	return s
}

func (s *swapping) bind(_ context.Context, b *v1.Binding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if came, ok := s.came[b.Name]; ok {
		s.slowest = max(s.slowest, time.Since(came))
	}
	s.bound[b.Name] = append(s.bound[b.Name], b.Target.Name)
	select {
	case s.grew <- struct{}{}:
	default:
	}
	return nil
}

func (s *swapping) add(from, to int) {
	for i := from; i < to; i++ {
		s.pods.Add(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprint("p", i)), ResourceVersion: fmt.Sprint(i + 2)},
			Spec:       v1.PodSpec{SchedulerName: "s", Containers: []v1.Container{{Name: "c", Image: "i"}}},
		})
	}
}

func (s *swapping) upgrade(i int) error {
	s.cfg.Bundles = []plugin.BundleConfig{{Name: "parity", Transport: s.cfg.Bundles[0].Transport, Version: []string{"1.0.0", "2.0.0"}[i%2]}}
	return s.host.Reconfigure(s.cfg)
}

// await waits until so many pods were bound.
func (s *swapping) await(t testing.TB, pods int) {
	t.Helper()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for {
		s.mu.Lock()
		n := len(s.bound)
		s.mu.Unlock()
		if n >= pods {
			return
		}
		select {
		case <-s.grew:
		case <-limit.C:
			t.Fatalf("%d of %d pods are placed", n, pods)
		}
	}
}

// A predicate is upgraded again and again while pods are placed: each pod is
// placed once, in its first attempt, by exactly one version, which the decision
// names; none is lost.
func TestUpgradesWhilePlacing(t *testing.T) {
	for transport, upgrades := range map[string]int{manifest.TransportWASM: 30, manifest.TransportProcess: 10} {
		if text := os.Getenv("SWAP_UPGRADES"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			upgrades = n
		}
		t.Run(transport, func(t *testing.T) {
			pods := 100 * upgrades
			s := startSwapping(t, transport, 100, pods, nil)
			for i := range upgrades {
				added := make(chan struct{})
				go func() {
					defer close(added)
					s.add(100*i, 100*(i+1))
				}()
				if err := s.upgrade(i + 1); err != nil {
					t.Fatal(err)
				}
				<-added
			}
			s.await(t, pods)
			by := map[string]int{}
			for i := range pods {
				name := fmt.Sprint("pod-", i)
				nodes := s.bound[name]
				d, ok := s.Explain("a", name)
				if !ok || len(nodes) != 1 || d.Node != nodes[0] || len(d.Versions) != 1 {
					t.Fatalf("pod %s: bound to %v, decision %+v", name, nodes, d)
				}
				number, err := strconv.Atoi(nodes[0][len("node-"):])
				if err != nil {
					t.Fatal(err)
				}
				if want := []string{"1.0.0", "2.0.0"}[number%2]; d.Versions[0].Version != want || d.Attempt != 1 || d.Feasible != 50 {
					t.Errorf("pod %s on %s: decision %+v, want version %s, the first attempt and 50 nodes that fit", name, nodes[0], d, want)
				}
				by[d.Versions[0].Version]++
			}
			if len(by) != 2 {
				t.Errorf("pods by version %v: the upgrades did not happen while pods were placed", by)
			}
			t.Logf("placed by %v", by)
		})
	}
}

// A version that cannot be found, or does not start, changes nothing.
func TestFailedUpgradeChangesNothing(t *testing.T) {
	s := startSwapping(t, manifest.TransportWASM, 10, 100, nil)
	s.cfg.Bundles = []plugin.BundleConfig{{Name: "parity", Version: "3.0.0"}}
	if err := s.host.Reconfigure(s.cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a version that is not there: %v", err)
	}
	s.cfg.Bundles = []plugin.BundleConfig{{Name: "parity", Version: "2.0.0", Digest: "sha256:" + fmt.Sprintf("%064d", 0)}}
	if err := s.host.Reconfigure(s.cfg); !errors.Is(err, manifest.ErrDigest) {
		t.Errorf("another digest: %v", err)
	}
	s.add(0, 10)
	s.await(t, 10)
	if d, _ := s.Explain("a", "pod-3"); d.Versions[0].Version != "1.0.0" {
		t.Errorf("decision %+v, want version 1.0.0", d)
	}
}
