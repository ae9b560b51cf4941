package placements

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/kernel/scheduler"
	"pintle.dev/pintle/kernel/scheduler/explain"
)

var profile = plugin.Profile{
	SchedulerName: "default-scheduler",
	Predicates: []string{
		"CheckNodeUnschedulable", "PodToleratesNodeTaints", "HostName", "MatchNodeSelector", "PodFitsHostPorts", "PodFitsResources",
		"NoDiskConflict", "NoVolumeZoneConflict", "MaxEBSVolumeCount", "MaxGCEPDVolumeCount",
	},
	Priorities: []plugin.WeightedPriority{
		{Name: "LeastRequestedPriority", Weight: 1}, {Name: "BalancedResourceAllocation", Weight: 1}, {Name: "SelectorSpreadPriority", Weight: 1},
		{Name: "NodeAffinityPriority", Weight: 1}, {Name: "EqualPriority", Weight: 1}, {Name: "ServiceSpreadingPriority", Weight: 1},
		{Name: "ImageLocalityPriority", Weight: 2},
	},
}

// build makes a folder with the classic bundle in both transports.
func build(t testing.TB) string { return buildBundle(t, "classic") }

// buildBundle makes a folder with a bundle of plugins in both transports.
func buildBundle(t testing.TB, name string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../plugins/" + name + "/manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.yaml"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, b := range []struct {
		env, args []string
	}{
		{[]string{"GOOS=wasip1", "GOARCH=wasm"}, []string{"-buildmode=c-shared", "-o", filepath.Join(dir, name+".wasm")}},
		{[]string{"CGO_ENABLED=0"}, []string{"-o", filepath.Join(dir, name)}},
	} {
		cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build"}, b.args...), "pintle.dev/pintle/plugins/"+name)...)
		cmd.Env = append(os.Environ(), b.env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %v: %v\n%s", b.env, err, out)
		}
	}
	if err := seal.Seal(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return root
}

// system is a host with a scheduler over it.
type system struct {
	*scheduler.Scheduler
	bound  atomic.Int64
	placed sync.Map // pod → node
	stop   func()
}

// testModules has what earlier tests compiled.
var testModules = modulecache.Of(filepath.Join("..", "..", "build", "modules"), nil)

func start(t testing.TB, directory, transport string, profile plugin.Profile, pods, nodes cache.ListerWatcher, objects map[string]cache.ListerWatcher) *system {
	t.Helper()
	return startWith(t, directory, transport, profile, scheduler.Deps{Pods: pods, Nodes: nodes, Objects: objects})
}

// startWith is start with more of what a scheduler may have; what deps binds by is
// called before the binding counts.
func startWith(t testing.TB, directory, transport string, profile plugin.Profile, deps scheduler.Deps) *system {
	t.Helper()
	bundles, err := os.ReadDir(directory)
	if err != nil || len(bundles) != 1 {
		t.Fatalf("%s holds %v: %v", directory, bundles, err)
	}
	host, err := plugin.New(plugin.Config{
		Directories: []string{directory}, Modules: testModules, StartTimeout: 2 * time.Minute, CallTimeout: 30 * time.Second,
		Bundles: []plugin.BundleConfig{{Name: bundles[0].Name(), Transport: transport}}, Profiles: []plugin.Profile{profile},
	}, plugin.Deps{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &system{}
	deps.Profiles = map[string]scheduler.PolicySource{profile.SchedulerName: host.Source(profile.SchedulerName)}
	write := deps.Bind
	deps.Bind = func(ctx context.Context, b *v1.Binding) error {
		if write != nil {
			if err := write(ctx, b); err != nil {
				return err
			}
		}
		s.placed.Store(b.Name, b.Target.Name)
		s.bound.Add(1)
		return nil
	}
	s.Scheduler, err = scheduler.New(scheduler.Config{Seed: 42, AssumeTTL: time.Hour, Explain: 1 << 16}, deps)
	if err != nil {
		t.Fatal(err)
	}
	host.SetReplicaSource(s.Scheduler)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- host.Run(ctx) }()
	select {
	case <-host.Ready():
	case err := <-done:
		cancel()
		t.Fatalf("host: %v", err)
	}
	go func() { done <- s.Run(ctx) }()
	s.stop = func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("%s: %v", transport, err)
			}
		}
	}
	return s
}

// Both builds place the same 2,000 generated pods on the same nodes, with the
// same scores, and refuse the same ones in the same words.
func TestTransportsAgree(t *testing.T) {
	const pods = 2000
	directory := build(t)
	answers := map[string][]explain.Decision{}
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		c := generate(1, 100, pods)
		s := start(t, directory, transport, profile, fixed{&c.pods}, fixed{&c.nodes}, c.objects())
		for i := range pods {
			name := fmt.Sprint("pod-", i)
			var d explain.Decision
			for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
				var ok bool
				if d, ok = s.Explain("a", name); ok {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: no decision about %s", transport, name)
				}
			}
			// Without the time, and which build said so.
			answers[transport] = append(answers[transport], explain.Decision{
				Namespace: d.Namespace, Name: d.Name, UID: d.UID, Attempt: d.Attempt, Nodes: d.Nodes, Feasible: d.Feasible,
				Node: d.Node, Total: d.Total, Scores: d.Scores, Message: d.Message, Outcomes: d.Outcomes,
			})
		}
		s.stop()
	}
	placed, refused := 0, map[string]int{}
	for i, wasm := range answers[manifest.TransportWASM] {
		if process := answers[manifest.TransportProcess][i]; !reflect.DeepEqual(wasm, process) {
			t.Fatalf("pod %d:\nwasm    %+v\nprocess %+v", i, wasm, process)
		}
		if wasm.Node != "" {
			placed++
			total(t, wasm)
		} else {
			refused[wasm.Message]++
		}
	}
	// The cases must be worth the comparison.
	if placed < pods/4 || len(refused) < 20 {
		t.Errorf("%d placed, %d different refusals: the cases say little", placed, len(refused))
	}
	t.Logf("%d placed, %d refused in %d ways", placed, pods-placed, len(refused))
}

// total checks a decision's scores: each lies in 0 to 10 (SCH-16), their
// weighted sum is the total (SCH-17), and what the four priorities of the
// default provider add to it lies in 0 to 40 (SCH-15, SCH-19).
func total(t *testing.T, d explain.Decision) {
	t.Helper()
	var sum, provider int64
	for i, s := range d.Scores {
		if want := profile.Priorities[i]; s.Score < 0 || s.Score > 10 || s.Name != want.Name || s.Weight != want.Weight {
			t.Errorf("pod %s: score %+v, want 0 to 10 of %+v", d.Name, s, want)
		}
		sum += s.Score * s.Weight
		if i < 4 {
			provider += s.Score * s.Weight
		}
	}
	if len(d.Scores) != len(profile.Priorities) || sum != d.Total || provider > 40 {
		t.Errorf("pod %s: total %d, sum %d, of the default provider %d: %+v", d.Name, d.Total, sum, provider, d.Scores)
	}
}

// BenchmarkClassic is the way of a pod from the list to its binding with the
// default provider's set over each transport, 1,000 nodes, one class; selected:
// a service and a controller select the pods, so that they spread.
func BenchmarkClassic(b *testing.B) {
	directory := build(b)
	run := func(transport string, spread bool) {
		b.Run(fmt.Sprintf("%s/selected=%v", transport, spread), func(b *testing.B) {
			c := &cases{}
			for _, n := range generate(1, 1000, 0).nodes.Items {
				n.Spec = v1.NodeSpec{}
				n.Status.Capacity = quantities("cpu", 1000, "memory", "1000Gi", "pods", 10000)
				n.Status.Allocatable = n.Status.Capacity
				c.nodes.Items = append(c.nodes.Items, n)
			}
			pod := generate(1, 0, 1).pods.Items[0]
			pod.Spec = v1.PodSpec{SchedulerName: profile.SchedulerName, Containers: []v1.Container{{Name: "c", Image: "i", Resources: v1.ResourceRequirements{Requests: quantities("cpu", "10m", "memory", "10Mi")}}}}
			for i := range b.N {
				p := *pod.DeepCopy()
				p.Name, p.UID = fmt.Sprint("pod-", i), types.UID(fmt.Sprint("p", i))
				c.pods.Items = append(c.pods.Items, p)
			}
			var objects map[string]cache.ListerWatcher
			if spread {
				objects = generate(1, 0, 0).objects()
			}
			// The four priorities of the default provider (SCH-15).
			profile := plugin.Profile{SchedulerName: profile.SchedulerName, Predicates: profile.Predicates, Priorities: profile.Priorities[:4]}
			b.ResetTimer()
			s := start(b, directory, transport, profile, fixed{&c.pods}, fixed{&c.nodes}, objects)
			for deadline := time.Now().Add(2 * time.Minute); int(s.bound.Load()) < b.N; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					b.Fatalf("%d of %d bound", s.bound.Load(), b.N)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pods/s")
			s.stop()
		})
	}
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		run(transport, false)
		run(transport, true)
	}
}
