package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/conformance"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// TestPluginDrive drives the plugin host as $PINTLE_PLUGIN_DRIVE says, which is
// how the benchmark plugin uses it; without that, a small round of it.
func TestPluginDrive(t *testing.T) {
	text := os.Getenv("PINTLE_PLUGIN_DRIVE")
	if text == "" {
		dir := t.TempDir()
		if err := goBuild(t.Context(), filepath.Join(dir, "fits", "fits.wasm"), fitsPackage, true); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(dir, "fits"), os.DirFS("testdata/fits")); err != nil {
			t.Fatal(err)
		}
		if err := seal.Seal(t.Context(), filepath.Join(dir, "fits")); err != nil {
			t.Fatal(err)
		}
		d := pluginDrive{Phase: "ask", Transport: manifest.TransportWASM, Bundle: filepath.Join(dir, "fits"), Cache: filepath.Join(dir, "cache"), Nodes: 50}
		out, err := d.run(t.Context(), time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if out.Pass <= 0 || out.Calls < out.Pass || out.Refused == 0 {
			t.Fatalf("%+v", out)
		}
		return
	}
	var d pluginDrive
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	out, err := d.run(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Out, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (d pluginDrive) run(ctx context.Context, spend time.Duration) (out pluginDriven, err error) {
	w := &pluginWorld{World: conformance.NewWorld(1, d.Nodes, conformance.Vocabulary{}), drive: d, spend: spend}
	switch d.Phase {
	case "ask":
		err = w.ask(ctx, &out)
	case "cross":
		err = w.cross(ctx, &out)
	case "percall":
		err = w.perCall(ctx, &out)
	case "weigh":
		err = w.weigh(ctx, &out)
	case "many":
		err = w.many(ctx, &out)
	default:
		err = fmt.Errorf("no phase %q", d.Phase)
	}
	return out, err
}

// pluginWorld is a random cluster and what is asked about it.
type pluginWorld struct {
	*conformance.World
	drive pluginDrive
	spend time.Duration
}

// Replica implements contractv1.ReplicaSource.
func (w *pluginWorld) Replica() *contractv1.Delta { return w.Whole() }

// host runs the plugin host with bundles, and every predicate and priority of
// them in one profile, while use runs.
func (w *pluginWorld) host(ctx context.Context, directories []string, use func(policy contractv1.Policy, ready time.Duration) error) error {
	scratch, err := os.MkdirTemp("", "ptd")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	cfg := plugin.Config{
		Modules: modulecache.Of(w.drive.Cache, nil), RunDirectory: scratch, CallTimeout: 10 * time.Second, StartTimeout: 2 * time.Minute,
		Profiles: []plugin.Profile{{SchedulerName: "s"}},
	}
	profile := &cfg.Profiles[0]
	for _, dir := range directories {
		m, err := manifest.Read(filepath.Join(dir, manifest.File))
		if err != nil {
			return err
		}
		b := plugin.BundleConfig{Name: m.Name, Directory: dir, Transport: w.drive.Transport}
		if w.drive.Transport == worker {
			b.Transport, cfg.WASMWorker = manifest.TransportWASM, plugin.WASMWorkerAll
		}
		if m.Artifacts.WASM == nil {
			b.Transport = manifest.TransportProcess
		}
		cfg.Bundles = append(cfg.Bundles, b)
		for _, e := range m.Plugins {
			switch e.Kind {
			case sdk.KindPredicate:
				profile.Predicates = append(profile.Predicates, e.Name)
			case sdk.KindPriority:
				profile.Priorities = append(profile.Priorities, plugin.WeightedPriority{Name: e.Name, Weight: 1})
			}
		}
	}
	h, err := plugin.New(cfg, plugin.Deps{Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return err
	}
	h.SetReplicaSource(w)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- h.Run(ctx) }()
	select {
	case <-h.Ready():
		ready := time.Since(began)
		policy := h.Source("s").Policy()
		if err = policy.Apply(ctx, w.Whole()); err == nil {
			err = prepared(ctx, policy)
		}
		if err == nil {
			err = use(policy, ready)
		}
		cancel()
		return errors.Join(err, <-done)
	case err := <-done:
		cancel()
		return errors.Join(errors.New("the host ended"), err)
	}
}

func prepared(ctx context.Context, policy contractv1.Policy) error {
	p, ok := policy.(contractv1.Preparing)
	for ok && !p.Prepared(ctx) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// median runs work until the time is spent, each times in one measurement, and
// returns nanoseconds of one.
func (w *pluginWorld) median(each int, work func() error) (float64, error) {
	var took []float64
	for end := time.Now().Add(w.spend); len(took) < 5 || time.Now().Before(end); {
		began := time.Now()
		for range each {
			if err := work(); err != nil {
				return 0, err
			}
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/float64(each))
	}
	return median(took), nil
}

func (w *pluginWorld) ask(ctx context.Context, out *pluginDriven) error {
	return w.host(ctx, []string{w.drive.Bundle}, func(policy contractv1.Policy, _ time.Duration) (err error) {
		nodes := w.Nodes()
		verdicts := make([]uint32, len(nodes))
		if err := policy.Filter(ctx, w.drive.Predicate, conformance.Class, nodes, verdicts); err != nil {
			return err
		}
		for i, v := range verdicts {
			if v == 0 {
				continue
			}
			out.Refused++
			if reasons := policy.Reasons(w.drive.Predicate, v); len(reasons) != 1 || !slices.Contains(fitsReasons, reasons[0]) {
				return fmt.Errorf("node %d: %q", i, reasons)
			}
		}
		if out.Crossing, err = w.crossing(ctx, policy); err != nil {
			return err
		}
		if out.Pass, err = w.median(1, func() error { return policy.Filter(ctx, w.drive.Predicate, conformance.Class, nodes, verdicts) }); err != nil {
			return err
		}
		if out.Calls, err = w.median(1, func() error {
			for i := range nodes {
				if err := policy.Filter(ctx, w.drive.Predicate, conformance.Class, nodes[i:i+1], verdicts[i:i+1]); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		return w.changed(ctx, policy, out)
	})
}

// crossing measures a question about one node.
func (w *pluginWorld) crossing(ctx context.Context, policy contractv1.Policy) (float64, error) {
	one, verdicts := w.Nodes()[:1], make([]uint32, 1)
	return w.median(100, func() error { return policy.Filter(ctx, w.drive.Predicate, conformance.Class, one, verdicts) })
}

// cross measures a question about one node, and what a call of the bundle's module
// costs by itself.
func (w *pluginWorld) cross(ctx context.Context, out *pluginDriven) error {
	binary, err := os.ReadFile(w.drive.Module)
	if err != nil {
		return err
	}
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return err
	}
	module, err := r.InstantiateWithConfig(ctx, binary, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		return err
	}
	version, stack := module.ExportedFunction("pintle_abi_version"), make([]uint64, 1)
	if out.Bare, err = w.median(100, func() error { return version.CallWithStack(ctx, stack) }); err != nil {
		return err
	}
	return w.host(ctx, []string{w.drive.Bundle}, func(policy contractv1.Policy, _ time.Duration) (err error) {
		out.Crossing, err = w.crossing(ctx, policy)
		return err
	})
}

// changed measures what a bound pod of the class costs: its delta, and a question
// about its node, in one round trip where the plugin has one.
func (w *pluginWorld) changed(ctx context.Context, policy contractv1.Policy, out *pluginDriven) (err error) {
	generation, n := w.Whole().GetGeneration(), 0
	nodes := w.Nodes()
	var class *contractv1.Pod
	for _, op := range w.Whole().GetOperations() {
		if c := op.GetClassSet(); c != nil {
			class = c.GetPod()
		}
	}
	delta := func() *contractv1.Delta {
		generation++
		n++
		pod := proto.Clone(class).(*contractv1.Pod)
		pod.Name, pod.Uid = fmt.Sprint("bound-", n), fmt.Sprint("u", n)
		return &contractv1.Delta{Generation: generation, Operations: []*contractv1.Operation{{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{
			Node: nodes[n%len(nodes)], Class: conformance.Class, Pod: pod,
		}}}}}
	}
	verdicts := make([]uint32, 1)
	evaluator, together := policy.(contractv1.Evaluator)
	ask := func() error {
		at := n % len(nodes)
		if !together {
			return policy.Filter(ctx, w.drive.Predicate, conformance.Class, nodes[at:at+1], verdicts)
		}
		e := &contractv1.Evaluation{Class: conformance.Class, Nodes: nodes[at : at+1], Filters: []contractv1.FilterQuestion{{Predicate: w.drive.Predicate}}}
		evaluator.Evaluate(ctx, e)
		if len(e.Filters[0].Verdicts) != 1 {
			return errors.New("it is not answered")
		}
		return nil
	}
	var took, questions []float64
	for end := time.Now().Add(w.spend); len(took) < 5 || time.Now().Before(end); {
		next := delta()
		began := time.Now()
		if err := policy.Apply(ctx, next); err != nil {
			return err
		}
		if err := ask(); err != nil {
			return err
		}
		took = append(took, float64(time.Since(began).Nanoseconds()))
		began = time.Now()
		if err := ask(); err != nil {
			return err
		}
		questions = append(questions, float64(time.Since(began).Nanoseconds()))
	}
	out.Changed, out.Asked = median(took), median(questions)
	return nil
}

// perCall asks the module of testdata/percall, once a node.
func (w *pluginWorld) perCall(ctx context.Context, out *pluginDriven) error {
	binary, err := os.ReadFile(w.drive.Module)
	if err != nil {
		return err
	}
	cache, err := wazero.NewCompilationCacheWithDir(w.drive.Cache)
	if err != nil {
		return err
	}
	defer cache.Close(ctx)
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache))
	defer r.Close(ctx)
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return err
	}
	pod, nodes := w.objects()
	var node *corev1.Node
	var fault error
	refused := 0
	give := func(m api.Module, object interface {
		Size() int
		MarshalToSizedBuffer([]byte) (int, error)
	}, stack []uint64) {
		// Encoded a call into the guest's memory, as the original does.
		size := object.Size()
		if room := int(uint32(stack[1])); size <= room {
			buffer, ok := m.Memory().Read(uint32(stack[0]), uint32(size))
			if !ok {
				panic("a pointer out of range")
			}
			if _, err := object.MarshalToSizedBuffer(buffer); err != nil {
				fault = err
			}
		}
		stack[0] = uint64(size)
	}
	i32 := []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}
	_, err = r.NewHostModuleBuilder("scheduler").
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) { give(m, pod, stack) }), i32, i32[:1]).Export("pod").
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) { give(m, node, stack) }), i32, i32[:1]).Export("node").
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) {
		text, _ := m.Memory().Read(uint32(stack[0]), uint32(stack[1]))
		if !slices.Contains(fitsReasons, string(text)) {
			fault = fmt.Errorf("reason %q", text)
		}
		refused++
	}), i32, nil).Export("reason").Instantiate(ctx)
	if err != nil {
		return err
	}
	m, err := r.InstantiateWithConfig(ctx, binary, wazero.NewModuleConfig().WithArgs("percall").WithStartFunctions("_initialize").WithSysWalltime().WithSysNanotime().WithStderr(os.Stderr))
	if err != nil {
		return err
	}
	filter := m.ExportedFunction("filter")
	stack := make([]uint64, 1)
	pass := func() error {
		refused = 0
		for i := range nodes {
			node = &nodes[i]
			if err := filter.CallWithStack(ctx, stack); err != nil {
				return err
			}
			if stack[0] == 1 {
				return errors.New("it cannot decode")
			}
		}
		return fault
	}
	if out.Calls, err = w.median(1, pass); err != nil {
		return err
	}
	out.Refused = refused
	return nil
}

// fitsReasons are the words of both builds of the predicate.
var fitsReasons = []string{"node(s) didn't match Pod's node selector", "Insufficient cpu", "Insufficient memory"}

// objects are the class and the nodes as the API has them, with what every node
// of a cluster has.
func (w *pluginWorld) objects() (*corev1.Pod, []corev1.Node) {
	var pod *corev1.Pod
	var nodes []corev1.Node
	list := func(r *contractv1.Resources) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(r.GetMilliCpu(), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(r.GetMemory(), resource.BinarySI),
			corev1.ResourcePods: *resource.NewQuantity(r.GetPods(), resource.DecimalSI), corev1.ResourceEphemeralStorage: *resource.NewQuantity(r.GetEphemeralStorage(), resource.BinarySI),
		}
	}
	now := metav1.Now()
	for _, op := range w.Whole().GetOperations() {
		if c := op.GetClassSet(); c != nil {
			p := c.GetPod()
			pod = &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.GetNamespace(), Name: p.GetName(), UID: types.UID(p.GetUid()), Labels: p.GetLabels(), CreationTimestamp: now},
				Spec: corev1.PodSpec{NodeSelector: p.GetNodeSelector(), SchedulerName: "default-scheduler", ServiceAccountName: "default", RestartPolicy: corev1.RestartPolicyAlways,
					Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/image:1", ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePath: corev1.TerminationMessagePathDefault,
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: *resource.NewMilliQuantity(p.GetRequests().GetMilliCpu(), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(p.GetRequests().GetMemory(), resource.BinarySI),
						}}}}},
				Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
			}
		}
		n := op.GetNodeSet().GetNode()
		if n == nil {
			continue
		}
		node := corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.GetName(), UID: types.UID(n.GetUid()), Labels: n.GetLabels(), Annotations: n.GetAnnotations(), CreationTimestamp: now},
			Spec:       corev1.NodeSpec{Unschedulable: n.GetUnschedulable()},
			Status: corev1.NodeStatus{
				Capacity: list(n.GetCapacity()), Allocatable: list(n.GetAllocatable()), Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: n.GetName()}},
				NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "v1.36.0"},
			},
		}
		for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "KubeletSays", LastHeartbeatTime: now, LastTransitionTime: now})
		}
		for _, image := range n.GetImages() {
			node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: image.GetNames(), SizeBytes: image.GetSizeBytes()})
		}
		nodes = append(nodes, node)
	}
	return pod, nodes
}

// weigh finds out what a bundle with the whole replica holds.
func (w *pluginWorld) weigh(ctx context.Context, out *pluginDriven) error {
	return w.weighing(ctx, []string{w.drive.Bundle}, out)
}

// many loads the bundle under many names.
func (w *pluginWorld) many(ctx context.Context, out *pluginDriven) error {
	dir, err := os.MkdirTemp("", "ptm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	original, err := os.ReadFile(filepath.Join(w.drive.Bundle, manifest.File))
	if err != nil {
		return err
	}
	var list []string
	for i := range w.drive.Bundles {
		name := fmt.Sprintf("many%03d", i)
		at := filepath.Join(dir, name)
		// Links: copies of what was compiled would be gigabytes.
		err := filepath.WalkDir(w.drive.Bundle, func(path string, d os.DirEntry, err error) error {
			to := filepath.Join(at, strings.TrimPrefix(path, w.drive.Bundle))
			switch {
			case err != nil || d.Name() == manifest.File:
				return err
			case d.IsDir():
				return os.MkdirAll(to, 0o755)
			}
			return os.Link(path, to)
		})
		if err != nil {
			return err
		}
		text := strings.Replace(string(original), "name: many", "name: "+name, 1)
		text = strings.Replace(text, "name: Many000", fmt.Sprintf("name: Many%03d", i), 1)
		if err := os.WriteFile(filepath.Join(at, manifest.File), []byte(text), 0o644); err != nil {
			return err
		}
		list = append(list, at)
	}
	return w.weighing(ctx, list, out)
}

func (w *pluginWorld) weighing(ctx context.Context, bundles []string, out *pluginDriven) error {
	w.Whole()
	resident, anonymous, err := settledMemory("self")
	if err != nil {
		return err
	}
	return w.host(ctx, bundles, func(policy contractv1.Policy, ready time.Duration) error {
		out.Ready, out.Plugins = float64(ready.Nanoseconds()), len(policy.Predicates())+len(policy.Priorities())
		nodes := w.Nodes()
		verdicts, scores := make([]uint32, len(nodes)), make([]int64, len(nodes))
		for i := range policy.Predicates() {
			if err := policy.Filter(ctx, i, conformance.Class, nodes, verdicts); err != nil {
				return err
			}
		}
		for i := range policy.Priorities() {
			if err := policy.Score(ctx, i, conformance.Class, nodes, scores); err != nil {
				return err
			}
		}
		r, a, err := settledMemory("self")
		if err != nil {
			return err
		}
		out.Resident, out.Anonymous = r-resident, a-anonymous
		out.Processes, err = childrenMemory()
		return err
	})
}

// settledMemory is what a process holds, resident and of that anonymous, in
// bytes, after garbage was given back.
func settledMemory(process string) (resident, anonymous float64, err error) {
	if process == "self" {
		for range 3 {
			runtime.GC()
		}
		debug.FreeOSMemory()
	}
	text, err := os.ReadFile("/proc/" + process + "/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kb float64
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "VmRSS", "RssAnon":
			if _, err := fmt.Sscan(value, &kb); err != nil {
				return 0, 0, err
			}
			if name == "VmRSS" {
				resident = kb * 1024
			} else {
				anonymous = kb * 1024
			}
		}
	}
	return resident, anonymous, nil
}

// childrenMemory is what all processes below this one hold.
func childrenMemory() (float64, error) {
	parents := map[string]string{}
	folders, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range folders {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 {
			parents[filepath.Base(filepath.Dir(file))] = fields[1]
		}
	}
	own := fmt.Sprint(os.Getpid())
	var sum float64
	for pid := range parents {
		for at := parents[pid]; at != ""; at = parents[at] {
			if at == own {
				resident, _, err := settledMemory(pid)
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					return 0, err
				}
				sum += resident
				break
			}
		}
	}
	return sum, nil
}
