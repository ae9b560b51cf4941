package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/plugin/process"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/kernel/plugin/wasm"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// testModules has what earlier tests compiled, as a kernel's own has it.
var testModules = modulecache.Of(filepath.Join("..", "..", "build", "modules"), nil)

// testWorker is where modules run that a test has no opinion of: TEST_WASM_WORKER=all
// runs the tests with workers.
var testWorker = os.Getenv("TEST_WASM_WORKER")

// catalog is the folder with the sealed test bundle; built once.
var catalog string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pintle-plugin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	catalog = dir
	for name, wasm := range map[string]bool{"guest": true, "plain": false, "cycle": true, "greeter": true, "podless": true, "reviewer": false} {
		if err := buildGuest(dir, name, wasm); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.RemoveAll(dir)
			os.Exit(1)
		}
	}
	code := m.Run()
	os.RemoveAll(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// buildGuest builds testdata/name as a process and, if told so, as a module.
func buildGuest(dir, name string, wasm bool) error {
	dir = filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	build := func(out string, env []string, args ...string) error {
		cmd := exec.Command("go", append(append([]string{"build", "-ldflags=-s -w"}, args...), "-o", filepath.Join(dir, out), "./testdata/"+name)...)
		cmd.Env = append(os.Environ(), env...)
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", out, err, output)
		}
		return nil
	}
	if wasm {
		if err := build(name+".wasm", []string{"GOOS=wasip1", "GOARCH=wasm"}, "-buildmode=c-shared"); err != nil {
			return err
		}
	}
	if err := build(name, nil); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join("testdata", name, manifest.File))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, manifest.File), text, 0o644); err != nil {
		return err
	}
	return seal.Seal(context.Background(), dir)
}

// testSource answers with whatever the test set.
type testSource struct {
	mu    sync.Mutex
	delta *contractv1.Delta
}

func (s *testSource) Replica() *contractv1.Delta {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delta
}

func (s *testSource) set(delta *contractv1.Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delta = delta
}

// replica is n nodes of which every third is too small and every fourth lacks the label.
func replica(n int, generation uint64) *contractv1.Delta {
	d := &contractv1.Delta{Generation: generation, Reset_: true}
	add := func(op *contractv1.Operation) { d.Operations = append(d.Operations, op) }
	for i := range n {
		node := &contractv1.Node{
			Name: fmt.Sprintf("n%d", i), Labels: map[string]string{"disk": "ssd"},
			Allocatable: &contractv1.Resources{MilliCpu: 4000 + int64(i%7)*100, Memory: 8 << 30, Pods: 110},
		}
		if i%3 == 2 {
			node.Allocatable.MilliCpu = 100
		}
		if i%4 == 3 {
			node.Labels = nil
		}
		add(&contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: uint32(i), Node: node}}})
		add(&contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: uint32(i), Pod: &contractv1.Pod{
			Namespace: "d", Name: fmt.Sprintf("p%d", i), Uid: fmt.Sprintf("u%d", i), Requests: &contractv1.Resources{MilliCpu: int64(i % 50)},
		}}}})
	}
	add(&contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: &contractv1.Object{Key: &contractv1.ObjectKey{Kind: "Service", Namespace: "d", Name: "s"}}}})
	add(&contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 7, Pod: &contractv1.Pod{
		Namespace: "d", Name: "asked", NodeSelector: map[string]string{"disk": "ssd"}, Requests: &contractv1.Resources{MilliCpu: 500},
	}}}})
	return d
}

func indexes(n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		list[i] = uint32(i)
	}
	return list
}

// testConfig gives plugins more time than they need on a machine that does much else.
// Tests of what never answers give it less: see brieflyAsked and hurry.
func testConfig(t testing.TB, transport string, predicates ...string) Config {
	run := t.TempDir()
	return Config{
		Directories: []string{catalog}, CallTimeout: 30 * time.Second, StartTimeout: 2 * time.Minute, MemoryLimit: 64 << 20,
		RunDirectory: run, Modules: testModules, WASMWorker: testWorker,
		Bundles: []BundleConfig{{Name: "guest", Transport: transport}},
		Profiles: []Profile{{
			SchedulerName: "s", Predicates: predicates, Priorities: []WeightedPriority{{Name: "LeastCPU", Weight: 2}},
		}},
	}
}

// brieflyAsked has every call of a host end within a second.
func brieflyAsked(cfg *Config) { cfg.CallTimeout = time.Second }

// hurry bounds each question to the running guest of a policy's first predicate. The guest
// that follows it has the time that the host is configured with.
func hurry(t testing.TB, p contractv1.Policy, limit time.Duration) {
	t.Helper()
	u := p.(*Policy).filters[0].unit
	poll(t, "the bundle runs", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		switch g := u.guest.(type) {
		case *wasm.Guest:
			g.Timeout = limit
		case *process.Guest:
			g.Timeout = limit
		default:
			return false
		}
		return true
	})
}

// runHost runs a host until the test ends and returns it ready.
func runHost(t testing.TB, cfg Config, source ReplicaSource) *Host {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return runHostLogging(t, cfg, source, log)
}

func runHostLogging(t testing.TB, cfg Config, source ReplicaSource, log *slog.Logger) *Host {
	t.Helper()
	return runHostWith(t, cfg, source, Deps{Log: log})
}

func runHostWith(t testing.TB, cfg Config, source ReplicaSource, deps Deps) *Host {
	t.Helper()
	if deps.Log == nil && testing.Verbose() {
		deps.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	h, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	h.SetReplicaSource(source)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case <-h.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("run ended: %v", err)
	case <-time.After(2 * time.Minute):
		t.Fatal("host is not ready after two minutes")
	}
	return h
}
