package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostileProcess is one bundle of e2e/testdata/plugins/hostileprocess: its folder
// is named after what it does, and so is its plugin.
type hostileProcess struct {
	name, kind string
	manifest   string // more of it
	grant      string // more of its entry in the configuration
	why        string // in what kubectl get plugins -o wide says, once it was asked
}

var hostileProcesses = []hostileProcess{
	{name: "hangs", kind: "predicate", why: "no answer in time"},
	{name: "hoards", kind: "predicate", manifest: "limits: {memory: 64Mi}", why: "used more than its 64Mi of memory"},
	{name: "forks", kind: "predicate", why: "is gone, or its connection is"},
	{name: "flaps", kind: "predicate", why: "is gone, or its connection is"},
	{name: "verdicts", kind: "predicate", why: "answer out of range: verdict 4294967295"},
	{name: "lengths", kind: "predicate", why: "answer out of range: 5 verdicts for 2 nodes"},
	{name: "gigabyte", kind: "predicate", why: "received message larger than max"},
}

// Those that are asked in a way of their own.
var otherProcesses = []hostileProcess{
	{name: "diesatsecond", kind: "predicate"},
	{name: "dozes", kind: "predicate", manifest: "timeouts: {call: 1s}"},
	{name: "floods", kind: "predicate"},
	{name: "stays", kind: "predicate", manifest: "timeouts: {stop: 1s}"},
	{name: "fills", kind: "predicate", manifest: "limits: {memory: 64Mi}"},
	{name: "spies", kind: "controller", grant: `, config: {spies: {data: "${dataDir}"}}`},
	{name: "nags", kind: "controller", grant: ", limits: {callsPerSecond: 20}", manifest: "rules:\n- {apiGroups: [\"\"], resources: [namespaces], verbs: [get]}"},
}

// Priorities that score out of range, and what the log says of each.
var scoringProcesses = []hostileProcess{
	{name: "scoreslow", kind: "priority", why: "answer out of range: score -9223372036854775808"},
	{name: "scoreshuge", kind: "priority", why: "answer out of range: score 9223372036854775807"},
	{name: "scoreseleven", kind: "priority", why: "answer out of range: score 11"},
	{name: "scoresnan", kind: "priority", why: "answer out of range: score 9221120237041090561"},
	{name: "scoresmore", kind: "priority", why: "answer out of range: 5 scores for 2 nodes"},
}

// Those that never start.
var neverProcesses = []hostileProcess{
	{name: "diesatload", kind: "predicate", why: "before it said how it is reached"},
	{name: "mumbles", kind: "predicate", why: "it says that it listens at unix"},
	{name: "dumb", kind: "predicate", manifest: "timeouts: {start: 1s}", why: "it did not say within 1s how it is reached"},
	{name: "diesatdescribe", kind: "predicate", why: "describe"},
}

// hostileProcessBinary is built once.
var hostileProcessBinary = sync.OnceValues(func() (string, error) {
	return buildTool("hostileprocess", "./e2e/testdata/plugins/hostileprocess", "")
})

// hostileProcessCatalog has a bundle a process, all of the same program.
func hostileProcessCatalog(t *testing.T) string {
	t.Helper()
	program, err := hostileProcessBinary()
	if err != nil {
		t.Fatal(err)
	}
	catalog := t.TempDir()
	for _, p := range slices.Concat(hostileProcesses, otherProcesses, scoringProcesses, neverProcesses) {
		dir := filepath.Join(catalog, p.name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(program, filepath.Join(dir, p.name)); err != nil {
			t.Fatal(err)
		}
		text := hostileManifest(p.name, p.name, p.kind)
		if p.kind == "controller" && strings.HasPrefix(p.manifest, "rules:") {
			text += "  " + strings.ReplaceAll(p.manifest, "\n", "\n  ") + "\n"
		} else {
			text += p.manifest + "\n"
		}
		write(t, filepath.Join(dir, "manifest.yaml"), text)
		if text, err := exec.Command(binary(t, "pintle"), "plugin", "seal", dir).CombinedOutput(); err != nil {
			t.Fatalf("seal %s: %v\n%s", p.name, err, text)
		}
	}
	return catalog
}

// counts are what a kernel holds.
type counts struct{ goroutines, files, threads int }

func (e *env) counts(t *testing.T) counts {
	t.Helper()
	var c counts
	m := regexp.MustCompile(`(?m)^go_goroutines (\d+)`).FindStringSubmatch(e.kubectl(t, "get", "--raw", "/metrics"))
	if m == nil {
		t.Fatal("the metrics do not say how many goroutines there are")
	}
	c.goroutines, _ = strconv.Atoi(m[1])
	threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(e.Pid()), "task"))
	if err != nil {
		t.Fatal(err)
	}
	c.files, c.threads = len(e.files()), len(threads)
	return c
}

// returnsTo waits until a kernel holds what it held before, and no process of a
// folder is left.
func (e *env) returnsTo(t *testing.T, before counts, folder string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if left := processesOf(folder); len(left) > 0 {
			return fmt.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
		}
		// Connections of the test itself and pauses of timers come and go.
		if after := e.counts(t); after.goroutines > before.goroutines+25 || after.files > before.files+10 {
			return fmt.Errorf("before: %+v, after: %+v, with files %q", before, after, e.files())
		}
		return nil
	})
}

// files are what a kernel has open, but for the locks of plugins' users, which bundles
// keep while the kernel runs.
func (e *env) files() []string {
	var list []string
	links, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(e.Pid()), "fd", "*"))
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && !strings.HasPrefix(to, "/run/pintle-users/") {
			list = append(list, to)
		}
	}
	slices.Sort(list)
	return list
}

// processesOf are those that were started from a folder.
func processesOf(folder string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		args, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(args), folder+"/") && !strings.Contains(string(args), "serve") {
			found = append(found, filepath.Base(filepath.Dir(file))+" "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return found
}

// TestHostileProcesses: processes that hang, hoard, fork, flap, flood, lie and
// look around while pods are scheduled. The others go on; what each did is said;
// and when they are gone the kernel holds what it held before.
func TestHostileProcesses(t *testing.T) {
	t.Parallel()
	catalog := hostileProcessCatalog(t)
	own := filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")
	file := filepath.Join(t.TempDir(), "pintle.yaml")
	configuration := func(bundles ...hostileProcess) {
		var b, profiles, controllers strings.Builder
		for _, p := range slices.Concat(hostileProcesses, otherProcesses, scoringProcesses, neverProcesses) {
			// The names of profiles stay; what is in them changes.
			predicates, priorities := "HostName", ""
			if i := slices.IndexFunc(bundles, func(used hostileProcess) bool { return used.name == p.name }); i >= 0 {
				fmt.Fprintf(&b, "  - {name: %s%s}\n", p.name, bundles[i].grant)
				switch p.kind {
				case "predicate":
					predicates += ", " + p.name
				case "priority":
					priorities = "{name: " + p.name + "}"
				case "controller":
					fmt.Fprintf(&controllers, "%s, ", p.name)
				}
			}
			if p.kind != "controller" {
				fmt.Fprintf(&profiles, "  - {schedulerName: %s, predicates: [%s], priorities: [%s]}\n", p.name, predicates, priorities)
			}
		}
		text := fmt.Sprintf(`apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
plugins:
  directories: [%s, %s]
  bundles:
  - {name: classic}
%sscheduler:
  podInitialBackoff: 50ms
  podMaxBackoff: 500ms
  profiles:
  - {schedulerName: default-scheduler, predicates: [HostName, PodFitsResources]}
%scontrollers:
  enabled: [%s]
`, own, catalog, b.String(), profiles.String(), strings.TrimSuffix(controllers.String(), ", "))
		if err := os.Rename(write(t, file+".new", text), file); err != nil {
			t.Fatal(err)
		}
	}
	configuration()
	data := filepath.Join(t.TempDir(), "data")
	e := minimal(t, file, data)
	e.placer(t)
	e.ask(t, "first", "default-scheduler")
	e.placed(t, "first")
	before := e.counts(t)

	configuration(slices.Concat(hostileProcesses, otherProcesses, scoringProcesses)...)
	e.refusesLive(t, "broke when it was tried: plugin bundle ")
	e = e.startedWith(t, file, data)
	eventually(t, func(context.Context) error {
		out := e.kubectl(t, "get", "plugins", "-o", "name")
		for _, p := range slices.Concat(hostileProcesses, otherProcesses, scoringProcesses) {
			if !strings.Contains(out, "/"+p.name+"\n") {
				return fmt.Errorf("no plugin %s:\n%s", p.name, out)
			}
		}
		return nil
	})
	said := func(t *testing.T, plugin string, words ...string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			out := e.kubectl(t, "get", "plugins", plugin, "-o", "jsonpath={.status.state} {.status.circuit} {.status.message}")
			for _, w := range words {
				if !strings.Contains(out, w) {
					return fmt.Errorf("plugin %s does not say %q: %s", plugin, w, out)
				}
			}
			return nil
		})
	}
	for _, p := range hostileProcesses {
		e.ask(t, "waits-"+p.name, p.name)
	}
	for _, p := range hostileProcesses {
		t.Run(p.name, func(t *testing.T) {
			e.refused(t, "waits-"+p.name, "0/2 nodes are available: 2 plugin "+p.name+" is not available.")
			e.ask(t, "beside-"+p.name, "default-scheduler")
			e.placed(t, "beside-"+p.name)
			said(t, p.name, p.why)
		})
	}
	t.Run("diesatsecond", func(t *testing.T) {
		e.ask(t, "one", "diesatsecond")
		e.placed(t, "one")
		e.askFor(t, "two", "diesatsecond", "100m") // another class: another question
		// Of what: the call that failed, or the end of the process, whichever was seen first.
		said(t, "diesatsecond", "started again after: plugin ", "plugin bundle diesatsecond: ")
		e.placed(t, "two") // by the process that was started again, at its first call
	})
	for _, p := range scoringProcesses {
		t.Run(p.name, func(t *testing.T) {
			// A priority that fails does not keep a pod from a node.
			e.ask(t, "scored-"+p.name, p.name)
			e.placed(t, "scored-"+p.name)
			if err := e.AwaitLog(bound(t), p.name, p.why); err != nil {
				t.Errorf("nothing in the log of the scores: %v", err)
			}
		})
	}
	t.Run("fills", e.filled)
	t.Run("dozes", func(t *testing.T) {
		// Each pod is of another class, so that each is a question.
		for i := range 12 {
			e.askFor(t, fmt.Sprintf("doze-%d", i), "dozes", fmt.Sprintf("%dm", 10+i))
		}
		if err := e.AwaitLog(bound(t), "plugin is not asked until", "it took 800ms or more of the 1s that it has, 10 times in a row"); err != nil {
			t.Errorf("its circuit did not open: %v", err)
		}
		said(t, "dozes", "BackOff Open", "10 times in a row")
		e.ask(t, "beside-dozes", "default-scheduler")
		e.placed(t, "beside-dozes")
	})
	t.Run("floods", func(t *testing.T) {
		e.ask(t, "flooded", "floods")
		e.placed(t, "flooded")
		if err := e.AwaitLog(bound(t), "plugin=floods", "lines were dropped"); err != nil {
			t.Errorf("nothing was dropped: %v", err)
		}
		// 1,000 at once and 100 a second, over what this test takes at most.
		if n := strings.Count(e.Log(1<<30), "[ERROR] noise"); n > 1000+100*300 {
			t.Errorf("%d lines of the flood are in the log", n)
		}
	})
	t.Run("spies", func(t *testing.T) {
		said(t, "spies", "was forbidden to list secrets, which its manifest does not ask for")
		if os.Geteuid() != 0 {
			t.Skip("a user of its own needs root")
		}
		if err := e.AwaitLog(bound(t), "looked around", "plugin=spies"); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(e.Log(1<<30), "\n") {
			if strings.Contains(line, "msg=reached") {
				t.Error(line)
			}
		}
		contains(t, e.Log(1<<30), "looked around") // and found the kernel's places
		if strings.Contains(e.Log(1<<30), "places=0") {
			t.Error("the spy found nothing to look at: the test proves nothing")
		}
	})
	t.Run("nags", func(t *testing.T) {
		// 20 at once and 20 a second.
		form := regexp.MustCompile(`msg=nagged .*answered=(\d+) milliseconds=(\d+)`)
		if err := e.AwaitLog(bound(t), "msg=nagged"); err != nil {
			t.Fatal(err)
		}
		for _, m := range form.FindAllStringSubmatch(e.Log(1<<30), -1) {
			answered, _ := strconv.Atoi(m[1])
			milliseconds, _ := strconv.Atoi(m[2])
			if most := 20 + 20*(milliseconds+1000)/1000; answered > most || answered == 0 {
				t.Errorf("%d calls were answered in %d ms, want at most %d and more than none", answered, milliseconds, most)
			}
		}
	})
	t.Run("ignored", func(t *testing.T) {
		ignored := slices.Concat(hostileProcesses, otherProcesses, scoringProcesses)
		for i := range hostileProcesses {
			ignored[i].grant += ", onFailure: ignore"
		}
		configuration(ignored...)
		for _, p := range hostileProcesses {
			e.placed(t, "waits-"+p.name)
		}
	})
	t.Run("no bundle that cannot start", func(t *testing.T) {
		for _, p := range neverProcesses {
			configuration(slices.Concat(hostileProcesses, otherProcesses, scoringProcesses, []hostileProcess{p})...)
			if err := e.AwaitLog(bound(t), "plugin bundle "+p.name, p.why); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
		e.ask(t, "beside-never", "default-scheduler")
		e.placed(t, "beside-never")
	})
	t.Run("flapping is slowed down", func(t *testing.T) {
		out := e.kubectl(t, "get", "plugins", "flaps", "-o", "jsonpath={.status.restarts}")
		if n, err := strconv.Atoi(out); err != nil || n < 1 || n > 30 {
			t.Errorf("flaps was started again %s times", out)
		}
	})
	t.Run("replaced", func(t *testing.T) {
		// Another program in the place of one that runs: it goes on, and what took
		// its place is not started.
		path := filepath.Join(catalog, "lengths", "lengths")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)-1] ^= 1
		if err := os.WriteFile(path+".new", data, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(context.Context) error {
			// Asked again it breaks, and would be started again.
			out := e.kubectl(t, "get", "plugins", "lengths", "-o", "jsonpath={.status.state} {.status.message}")
			if !strings.HasPrefix(out, "Failed") || !strings.Contains(out, "has digest sha256:") {
				for _, line := range processesOf(filepath.Join(catalog, "lengths")) {
					pid, _ := strconv.Atoi(strings.Fields(line)[0])
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
				return fmt.Errorf("plugin lengths: %s", out)
			}
			return nil
		})
	})
	t.Run("gone", func(t *testing.T) {
		configuration()
		if err := e.AwaitLog(bound(t), "plugin=stays", "did not stop in order and was killed"); err != nil {
			t.Errorf("nothing in the log of the process that ignores its end: %v", err)
		}
		e.returnsTo(t, before, catalog)
		if os.Geteuid() == 0 {
			// Below the kernel's own, which is named after its data directory.
			sum := sha256.Sum256([]byte(e.Data))
			if groups, _ := filepath.Glob("/sys/fs/cgroup/*/pintle/" + hex.EncodeToString(sum[:4]) + "/*-*"); len(groups) > 0 {
				t.Errorf("cgroups are left: %v", groups)
			}
		}
		e.ask(t, "last", "default-scheduler")
		e.placed(t, "last")
	})
	e.stop(t)
}

// askFor creates a pod that requests CPU, so that pods of different requests are
// of different classes.
func (e *env) askFor(t *testing.T, name, scheduler, cpu string) {
	t.Helper()
	_, err := e.client.CoreV1().Pods("default").Create(bound(t), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler,
			Tolerations:   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
