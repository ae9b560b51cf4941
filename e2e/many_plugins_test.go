package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestManyPlugins: many plugins at once, each of a bundle of its own: 36 modules
// and 4 processes, or with MANY_PLUGINS=200 (make test-many-plugins) 180 and 20,
// which hold 5 GiB. The start is bounded by the deadline of the test's cluster;
// what it took and what they weigh is reported. Unloaded, they leave no process,
// no goroutine and no file descriptor.
func TestManyPlugins(t *testing.T) {
	all := 40
	if text := os.Getenv("MANY_PLUGINS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 10 || n > 200 {
			t.Fatalf("MANY_PLUGINS=%s; want 10 to 200", text)
		}
		all = n
	}
	processes := all / 10
	modules := all - processes
	sealed, err := hostileModule()
	if err != nil {
		t.Fatal(err)
	}
	program, err := hostileProcessBinary()
	if err != nil {
		t.Fatal(err)
	}
	catalog := t.TempDir()
	var bundles, names strings.Builder
	link := func(from, to string) {
		t.Helper()
		if err := os.Link(from, to); err != nil {
			t.Fatal(err)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(sealed, "manifest.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range modules + processes {
		name := fmt.Sprintf("many%03d", i)
		dir := filepath.Join(catalog, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&bundles, "  - {name: %s}\n", name)
		fmt.Fprintf(&names, ", %s", name)
		if i >= modules {
			link(program, filepath.Join(dir, name))
			write(t, filepath.Join(dir, "manifest.yaml"), hostileManifest(name, name, "predicate"))
			if text, err := exec.Command(binary(t, "pintle"), "plugin", "seal", dir).CombinedOutput(); err != nil {
				t.Fatalf("seal %s: %v\n%s", name, err, text)
			}
			continue
		}
		// The same module under another name; it has a plugin for each of them.
		text := strings.Replace(string(manifest), "name: hostile", "name: "+name, 1)
		write(t, filepath.Join(dir, "manifest.yaml"), strings.Replace(text, "name: Traps", "name: "+name, 1))
		link(filepath.Join(sealed, "artifacts.yaml"), filepath.Join(dir, "artifacts.yaml"))
		link(filepath.Join(sealed, "hostile.wasm"), filepath.Join(dir, "hostile.wasm"))
	}
	own := filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")
	file := filepath.Join(t.TempDir(), "pintle.yaml")
	configuration := func(bundles, names string) {
		text := fmt.Sprintf(`apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
plugins:
  directories: [%s, %s]
  bundles:
  - {name: classic}
%sscheduler:
  profiles:
  - {schedulerName: default-scheduler, predicates: [HostName%s]}
`, own, catalog, bundles, names)
		if err := os.Rename(write(t, file+".new", text), file); err != nil {
			t.Fatal(err)
		}
	}
	// What a kernel without them holds, which it has to come back to.
	data := filepath.Join(t.TempDir(), "data")
	configuration("", "")
	e := minimal(t, file, data)
	e.placer(t)
	e.ask(t, "none", "default-scheduler")
	e.placed(t, "none")
	before := e.counts(t)
	e.stop(t)

	configuration(bundles.String(), names.String())
	began := time.Now()
	e = minimal(t, file, data)
	took := time.Since(began)
	e.ask(t, "one", "default-scheduler")
	e.placed(t, "one")
	kernel := residentMemory(t, e.Pid())
	var others int64
	left := processesOf(catalog)
	for _, line := range left {
		pid, err := strconv.Atoi(strings.Fields(line)[0])
		if err != nil {
			t.Fatal(err)
		}
		others += residentMemory(t, pid)
	}
	if len(left) != processes {
		t.Errorf("%d processes run, want %d", len(left), processes)
	}
	t.Logf("%d modules and %d processes: ready in %s; the kernel has %d MiB, %.1f MiB a module; the processes %d MiB",
		modules, processes, took.Round(time.Millisecond), kernel>>20, float64(kernel>>20)/float64(modules), others>>20)
	during := e.counts(t)
	configuration("", "")
	e.returnsTo(t, before, catalog)
	e.ask(t, "two", "default-scheduler")
	e.placed(t, "two")
	t.Logf("goroutines, files, threads: without them %v, with them %v, unloaded %v", before, during, e.counts(t))
	e.stop(t)
	if left := processesOf(catalog); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// residentMemory is what a process holds, in bytes.
func residentMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
