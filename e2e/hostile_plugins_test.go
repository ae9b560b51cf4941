package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// hostility is one plugin of e2e/testdata/plugins/hostile. Each is loaded as a
// bundle of its own and asked by a scheduler name of its own.
type hostility struct {
	bundle, plugin string
	why            string // in what kubectl get plugins -o wide says
}

var hostilities = []hostility{
	{"traps", "Traps", "out of bounds memory access"},
	{"loops", "Loops", "no answer in time"},
	{"allocates", "Allocates", "wasm error: unreachable"}, // its own runtime gives up at the memory ceiling
	{"verdicts", "InventsVerdicts", "answer out of range: verdict 1073741824"},
	{"astray", "PointsAstray", "answer out of range: 100 bytes at 0xfffffff0 are not in its memory"},
	{"exits", "Exits", "wasm error: unreachable"},
	{"scribbles", "Scribbles", "out of bounds memory access"},
	{"status", "LiesOfStatus", "answer out of range: status 77"},
	{"draws", "Draws", "no answer in time"},
}

// Those that answer.
var answering = []hostility{
	{"dozes", "Dozes", ""}, {"floods", "Floods", ""}, {"peeks", "PeeksAtFiles", ""}, {"reads", "ReadsFiles", ""},
}

// Handmade modules, of predicates named as their bundles.
var handmades = map[string]handmade{
	// Traps at its second call: a count at 8, then as a harmless one.
	"later": {filter: slices.Concat(i32(8), i32(8), []byte{0x28, 2, 0}, i32(1), []byte{0x6a, 0x36, 2, 0},
		i32(8), []byte{0x28, 2, 0}, i32(2), []byte{0x46, 0x04, 0x40, 0x00, 0x0b}, everythingFits)},
	// Takes pages until there are none any more, and answers.
	"fills": {filter: slices.Concat([]byte{0x03, 0x40}, i32(1), []byte{0x40, 0}, i32(1<<32-1), []byte{0x47, 0x0d, 0, 0x0b}, everythingFits)},
}

// Priorities that score out of range.
var outOfRange = []hostility{
	{"eleven", "ScoresEleven", "answer out of range: score 11"},
	{"nan", "ScoresNaN", "answer out of range: score 9221120237041090561"},
	{"huge", "ScoresHuge", "answer out of range: score -9223372036854775808"},
}

// hostileModule is built and sealed once.
var hostileModule = sync.OnceValues(func() (string, error) {
	repo, err := cluster.Repository()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(repo, "bin", "e2e", "hostile")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	granted := grantedFolder(dir)
	if err := errors.Join(os.RemoveAll(granted), os.Mkdir(granted, 0o755), os.WriteFile(filepath.Join(granted, "hello"), []byte("hello"), 0o644),
		os.Symlink("/etc/passwd", filepath.Join(granted, "link"))); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w -X main.granted="+granted, "-o", filepath.Join(dir, "hostile.wasm"), "./e2e/testdata/plugins/hostile")
	build.Dir, build.Env = repo, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build hostile plugins: %w\n%s", err, text)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.yaml"), []byte(hostileManifest("hostile", "Traps", "predicate")), 0o644); err != nil {
		return "", err
	}
	if text, err := exec.Command(filepath.Join(repo, "bin", "pintle"), "plugin", "seal", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("seal hostile plugins: %w\n%s", err, text)
	}
	return dir, nil
})

// grantedFolder is what the plugin ReadsFiles of the hostile module may read.
func grantedFolder(sealed string) string { return filepath.Join(sealed, "granted") }

func hostileManifest(bundle, plugin, kind string) string {
	return fmt.Sprintf(`apiVersion: kernel.pintle.dev/v1alpha1
kind: PluginManifest
name: %s
version: 0.1.0
plugins:
- name: %s
  kind: %s
`, bundle, plugin, kind)
}

// hostileCatalog has a bundle a hostility, all with the same module.
func hostileCatalog(t *testing.T) string {
	t.Helper()
	sealed, err := hostileModule()
	if err != nil {
		t.Fatal(err)
	}
	catalog := t.TempDir()
	add := func(bundle, plugin, kind string) {
		manifest := filepath.Join(copyBundle(t, sealed, catalog, bundle), "manifest.yaml")
		replace(t, manifest, "name: hostile", "name: "+bundle)
		replace(t, manifest, "name: Traps", "name: "+plugin)
		replace(t, manifest, "kind: predicate", "kind: "+kind)
	}
	for _, h := range hostilities {
		add(h.bundle, h.plugin, "predicate")
	}
	for _, h := range answering {
		add(h.bundle, h.plugin, "predicate")
	}
	for _, h := range outOfRange {
		add(h.bundle, h.plugin, "priority")
	}
	for _, bundle := range []string{"reads", "peeks"} { // who peeks asks for it, and is granted nothing
		manifest := filepath.Join(catalog, bundle, "manifest.yaml")
		replace(t, manifest, "version: 0.1.0\n", "version: 0.1.0\nfiles: ["+grantedFolder(sealed)+"]\n")
	}
	for name, h := range handmades {
		h.description = described(name, "predicate", "")
		h.bundle(t, catalog, name, "predicate", "")
	}
	return catalog
}

// placer is what a test of scheduling needs beside a kernel: two nodes and a
// service account.
func (e *env) placer(t *testing.T) {
	t.Helper()
	if _, err := e.client.CoreV1().ServiceAccounts("default").Create(bound(t), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		room := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}
		node, err := e.client.CoreV1().Nodes().Create(bound(t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Status = corev1.NodeStatus{Capacity: room, Allocatable: room}
		if _, err := e.client.CoreV1().Nodes().UpdateStatus(bound(t), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// ask creates a pod for a scheduler name.
func (e *env) ask(t *testing.T, name, scheduler string) {
	t.Helper()
	_, err := e.client.CoreV1().Pods("default").Create(bound(t), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler,
			Tolerations:   []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // no kubelet makes the nodes ready
			Containers:    []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// placed waits until a pod has a node.
func (e *env) placed(t *testing.T, name string) {
	t.Helper()
	e.awaitPod(t, "default", name, func(p *corev1.Pod) error {
		if p.Spec.NodeName == "" {
			return fmt.Errorf("pod %s has no node: %v", name, p.Status.Conditions)
		}
		return nil
	})
}

// refused waits for a FailedScheduling event of a pod, and why in its words or in
// those of the condition: a series of events keeps the words of its first.
func (e *env) refused(t *testing.T, name, why string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		list, err := e.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name + ",reason=FailedScheduling"})
		if err != nil {
			return err
		}
		pod, err := e.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var said []string
		for _, ev := range list.Items {
			said = append(said, ev.Message)
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				said = append(said, c.Message)
			}
		}
		if len(list.Items) == 0 || !slices.ContainsFunc(said, func(text string) bool { return strings.Contains(text, why) }) {
			return fmt.Errorf("no FailedScheduling of pod %s says %q: %q", name, why, said)
		}
		return nil
	})
}

// TestHostilePlugins: WASM modules that trap, loop for ever, allocate without
// end, end themselves or answer out of range while pods are scheduled. Each is
// contained: its own profile fails closed and says so, the others go on, and a
// configuration without it heals what waited, while the kernel runs.
func TestHostilePlugins(t *testing.T) {
	t.Parallel()
	own := filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")
	catalog := hostileCatalog(t)
	sealed, err := hostileModule()
	if err != nil {
		t.Fatal(err)
	}
	var made []hostility
	for name := range handmades {
		made = append(made, hostility{bundle: name, plugin: name})
	}
	// configuration writes the file with the hostile plugins in use, left out
	// when they fail, or gone.
	file := filepath.Join(t.TempDir(), "pintle.yaml")
	configuration := func(use bool, extra string) {
		var b strings.Builder
		fmt.Fprintf(&b, `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
plugins:
  directories: [%s, %s]
  callTimeout: 1s
  memoryLimit: 64Mi
  bundles:
  - name: classic
`, own, catalog)
		for _, h := range slices.Concat(hostilities, answering, outOfRange, made) {
			grant := ""
			if h.bundle == "reads" {
				grant = ", files: [" + grantedFolder(sealed) + "]"
			}
			if use {
				fmt.Fprintf(&b, "  - {name: %s%s%s}\n", h.bundle, grant, extra)
			}
		}
		b.WriteString("scheduler:\n  podInitialBackoff: 50ms\n  podMaxBackoff: 500ms\n  profiles:\n  - {schedulerName: default-scheduler, predicates: [HostName, PodFitsResources]}\n")
		for _, h := range slices.Concat(hostilities, answering, made) {
			predicates := "HostName"
			if use {
				predicates += ", " + h.plugin
			}
			fmt.Fprintf(&b, "  - {schedulerName: %s, predicates: [%s]}\n", h.bundle, predicates)
		}
		for _, h := range outOfRange {
			priorities := "LeastRequestedPriority"
			if use {
				priorities = h.plugin
			}
			fmt.Fprintf(&b, "  - {schedulerName: %s, predicates: [HostName], priorities: [{name: %s}]}\n", h.bundle, priorities)
		}
		// In one step, as an editor does.
		if err := os.Rename(write(t, file+".new", b.String()), file); err != nil {
			t.Fatal(err)
		}
	}
	configuration(false, "")
	data := filepath.Join(t.TempDir(), "data")
	e := minimal(t, file, data)
	e.placer(t)
	e.ask(t, "before", "default-scheduler")
	e.placed(t, "before")
	before := e.counts(t)
	configuration(true, "")
	e.refusesLive(t, "plugin Traps: version 0.1.0 of bundle traps broke when it was tried")
	e = e.startedWith(t, file, data)
	for _, h := range slices.Concat(hostilities, answering, outOfRange, made) {
		eventually(t, func(context.Context) error {
			if r := e.try(t, "get", "plugin", h.plugin); r.err != nil {
				return fmt.Errorf("%w: %s", r.err, r.stderr)
			}
			return nil
		})
	}

	for _, h := range hostilities {
		e.ask(t, "waits-"+h.bundle, h.bundle)
	}
	for _, h := range slices.Concat(answering, outOfRange) {
		e.ask(t, "first-"+h.bundle, h.bundle)
	}
	for _, h := range hostilities {
		t.Run(h.bundle, func(t *testing.T) {
			e.refused(t, "waits-"+h.bundle, "0/2 nodes are available: 2 plugin "+h.plugin+" is not available.")
			e.ask(t, "beside-"+h.bundle, "default-scheduler")
			e.placed(t, "beside-"+h.bundle)
			eventually(t, func(context.Context) error {
				out := e.kubectl(t, "get", "plugins", h.plugin, "-o", "wide")
				if !strings.Contains(out, h.why) {
					return fmt.Errorf("get plugins -o wide does not say %q:\n%s", h.why, out)
				}
				return nil
			})
		})
	}
	for _, h := range outOfRange {
		t.Run(h.bundle, func(t *testing.T) {
			// A priority that fails does not keep a pod from a node.
			e.placed(t, "first-"+h.bundle)
			if err := e.AwaitLog(bound(t), h.plugin, h.why); err != nil {
				t.Errorf("nothing in the log of the score out of range: %v", err)
			}
		})
	}
	t.Run("floods", func(t *testing.T) {
		e.placed(t, "first-floods")
		if err := e.AwaitLog(bound(t), "plugin=floods", "lines were dropped"); err != nil {
			t.Errorf("nothing was dropped: %v", err)
		}
		if n := strings.Count(e.Log(1<<30), "noise noise noise"); n > 1000+100*300 {
			t.Errorf("%d lines of the flood are in the log", n)
		}
	})
	t.Run("peeks", func(t *testing.T) {
		e.placed(t, "first-peeks")
		if err := e.AwaitLog(bound(t), "plugin=peeks", "looked around"); err != nil {
			t.Fatal(err)
		}
		if log := e.Log(1 << 30); strings.Contains(log, "reached ") {
			t.Error("a module read what is not its own: ", log[strings.Index(log, "reached "):][:80])
		}
	})
	t.Run("reads", func(t *testing.T) {
		e.placed(t, "first-reads")
		if err := e.AwaitLog(bound(t), "plugin=reads", "looked around"); err != nil {
			t.Fatal(err)
		}
		read := false
		for _, line := range strings.Split(e.Log(1<<30), "\n") {
			granted := strings.Contains(line, "granted hello")
			if own := strings.Contains(line, "plugin=reads"); granted && own {
				read = true
			} else if granted || own && strings.Contains(line, "reached ") {
				t.Error("a module reached more than it was granted: ", line)
			}
		}
		if !read {
			t.Error("a module could not read what it was granted")
		}
		if text, err := os.ReadFile(filepath.Join(grantedFolder(sealed), "hello")); err != nil || string(text) != "hello" {
			t.Errorf("the granted file is %q, %v", text, err)
		}
	})
	t.Run("fills", e.filled)
	t.Run("later", func(t *testing.T) {
		e.askFor(t, "later-1", "later", "10m")
		e.placed(t, "later-1")
		e.askFor(t, "later-2", "later", "11m") // another class: another question
		eventually(t, func(context.Context) error {
			if out := e.kubectl(t, "get", "plugin", "later", "-o", "jsonpath={.status.restarts} {.status.message}"); !strings.Contains(out, "unreachable") && !strings.HasPrefix(out, "1") {
				return fmt.Errorf("plugin later says %q", out)
			}
			return nil
		})
		e.placed(t, "later-2") // by the module that was started again, at its first call
	})
	t.Run("dozes", func(t *testing.T) {
		for i := range 12 {
			e.askFor(t, fmt.Sprintf("doze-%d", i), "dozes", fmt.Sprintf("%dm", 10+i))
		}
		if err := e.AwaitLog(bound(t), "plugin is not asked until", "it took 800ms or more of the 1s that it has, 10 times in a row"); err != nil {
			t.Errorf("its circuit did not open: %v", err)
		}
	})
	t.Run("flapping is slowed down", func(t *testing.T) {
		// A pod that asks again twice a second breaks the module each time.
		out := e.kubectl(t, "get", "plugins", "Traps", "-o", "jsonpath={.status.restarts}")
		if n, err := strconv.Atoi(out); err != nil || n < 1 || n > 30 {
			t.Errorf("traps was started again %s times", out)
		}
	})
	t.Run("others", func(t *testing.T) {
		out := e.kubectl(t, "get", "plugins", "HostName", "PodFitsResources", "-o", "jsonpath={range .items[*]}{.status.state} {.status.restarts} {end}")
		if strings.ReplaceAll(out, "0", "") != "Ready  Ready  " && out != "Ready  Ready  " {
			t.Errorf("classic plugins: %q, want both ready and never restarted", out)
		}
	})
	t.Run("ignored", func(t *testing.T) {
		configuration(true, ", onFailure: ignore")
		for _, h := range hostilities {
			e.placed(t, "waits-"+h.bundle)
		}
	})
	t.Run("gone", func(t *testing.T) {
		configuration(false, "")
		eventually(t, func(context.Context) error {
			if out := e.kubectl(t, "get", "plugins", "-o", "name"); strings.Contains(out, "/Traps") {
				return errors.New("the hostile plugins are still there:\n" + out)
			}
			return nil
		})
		for _, h := range hostilities {
			e.ask(t, "healed-"+h.bundle, h.bundle)
		}
		for _, h := range hostilities {
			e.placed(t, "healed-"+h.bundle)
		}
	})
	t.Run("leaks nothing", func(t *testing.T) { e.returnsTo(t, before, catalog) })
	t.Run("faulty configuration", func(t *testing.T) {
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(write(t, file+".new", strings.Replace(string(good), "profiles:", "profyles:", 1)), file); err != nil {
			t.Fatal(err)
		}
		if err := e.AwaitLog(bound(t), "configuration not applied", "scheduler.profyles: unknown key"); err != nil {
			t.Error(err)
		}
		if err := os.Rename(write(t, file+".new", strings.Replace(string(good), "HostName, PodFitsResources", "HostName, Loops", 1)), file); err != nil {
			t.Fatal(err)
		}
		if err := e.AwaitLog(bound(t), "the former one stays in force", `no loaded bundle has predicate`, `Loops`); err != nil {
			t.Error(err)
		}
		e.ask(t, "still", "default-scheduler")
		e.placed(t, "still")
	})
	e.stop(t)
}

// refusesLive waits until a kernel has tried a configuration and refused it whole.
func (e *env) refusesLive(t *testing.T, why string) {
	t.Helper()
	if err := e.AwaitLog(bound(t), "configuration of plugins not applied; the former one stays in force", why); err != nil {
		t.Fatal(err)
	}
	if out := e.kubectl(t, "get", "plugins", "-o", "jsonpath={.items[*].spec.bundle}"); strings.Trim(out, "clasi ") != "" {
		t.Errorf("bundles of a refused configuration are there: %s", out)
	}
}

// startedWith ends a kernel and starts the next one with a configuration that would
// be refused live: a start asks plugins nothing before pods are there.
func (e *env) startedWith(t *testing.T, file, data string) *env {
	t.Helper()
	e.stop(t)
	return minimal(t, file, data)
}

// filled: a plugin that takes most of the memory it may have answers like any other.
func (e *env) filled(t *testing.T) {
	for i := range 3 {
		pod := fmt.Sprint("fill-", i)
		e.askFor(t, pod, "fills", fmt.Sprintf("%dm", 10+i))
		e.placed(t, pod)
	}
	if out := e.kubectl(t, "get", "plugin", "fills", "-o", "jsonpath={.status.state} {.status.restarts}"); strings.TrimSuffix(strings.TrimSpace(out), " 0") != "Ready" {
		t.Errorf("a plugin that fills its memory and answers is %s", out)
	}
}
