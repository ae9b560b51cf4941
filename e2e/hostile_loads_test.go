package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHostileLoads: modules that panic or loop as they are loaded or point
// astray, and modules and programs that are corrupted, truncated or no such thing
// at all, some behind a seal that is right. A configuration that names one is not
// put in force, which the log says with the reason; the cluster goes on.
func TestHostileLoads(t *testing.T) {
	t.Parallel()
	catalog := t.TempDir()
	type load struct{ name, why string }
	var loads []load
	module := func(name, why string, h handmade) string {
		loads = append(loads, load{name, why})
		if h.description == "" {
			h.description = described(name, "predicate", "")
		}
		return h.bundle(t, catalog, name, "predicate", "timeouts: {start: 1s}\n")
	}
	const astray = "100 bytes at 0xfffffff0 are not in its memory"
	module("loadpanics", "unreachable", handmade{initialize: unreachable})
	module("loadloops", "no answer in time", handmade{initialize: forever})
	module("describepanics", "unreachable", handmade{describe: unreachable})
	module("describeastray", astray, handmade{describe: span(0xfffffff0, 100)})
	module("describehuge", "4294967295 bytes, at most 1048576", handmade{describe: span(0, 1<<32-1)})
	module("describegarbage", "describe", handmade{description: "{\"contract\":"})

	damage := func(path string, how func([]byte) []byte) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, how(data), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	half := func(data []byte) []byte { return data[:len(data)/2] }
	flip := func(data []byte) []byte { data[len(data)/2] ^= 1; return data }
	damage(filepath.Join(module("truncated", "has digest sha256:", handmade{}), "truncated.wasm"), half)
	damage(filepath.Join(module("corrupted", "has digest sha256:", handmade{}), "corrupted.wasm"), flip)
	// The digest is that of what is there: whoever made it made the manifest too.
	forge := func(dir, file string) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		kind := "process"
		if strings.HasSuffix(file, ".wasm") {
			kind = "wasm"
		}
		write(t, filepath.Join(dir, "manifest.yaml"), hostileManifest(filepath.Base(dir), filepath.Base(dir), "predicate")+
			fmt.Sprintf("artifacts:\n  %s: {path: %s, digest: sha256:%s}\n", kind, file, hex.EncodeToString(sum[:])))
	}
	for name, how := range map[string]func([]byte) []byte{
		"halfmodule": half, "nomodule": func([]byte) []byte { return []byte("no module at all") }, "emptymodule": func([]byte) []byte { return nil },
	} {
		dir := module(name, "build it again", handmade{})
		damage(filepath.Join(dir, name+".wasm"), how)
		if text, err := exec.Command(binary(t, "pintle"), "plugin", "seal", dir).CombinedOutput(); err == nil {
			t.Errorf("%s was sealed: %s", name, text)
		}
		forge(dir, name+".wasm")
	}
	// Sealed as asking for it, and the manifest changed after that.
	dir := handmade{description: described("ungranted", "predicate", ""), imports: []string{"create"}}.bundle(t, catalog, "ungranted", "predicate", "hostFunctions: [create]\n")
	forge(dir, "ungranted.wasm")
	loads = append(loads, load{"ungranted", "module imports the host function create; name it in hostFunctions of the manifest"})
	program, err := hostileProcessBinary()
	if err != nil {
		t.Fatal(err)
	}
	for name, how := range map[string]func([]byte) []byte{
		"halfprogram": half, "noprogram": func([]byte) []byte { return []byte("\x7fELF no program") }, "emptyprogram": func([]byte) []byte { return nil },
		"cutprogram": half, "flippedprogram": flip,
	} {
		dir := filepath.Join(catalog, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if sealed := strings.HasPrefix(name, "cut") || strings.HasPrefix(name, "flipped"); sealed {
			write(t, filepath.Join(dir, "manifest.yaml"), hostileManifest(name, name, "predicate"))
			if err := os.WriteFile(path, data, 0o755); err != nil {
				t.Fatal(err)
			}
			seal(t, dir)
			damage(path, how)
			loads = append(loads, load{name, "has digest sha256:"})
			continue
		}
		if err := os.WriteFile(path, how(data), 0o755); err != nil {
			t.Fatal(err)
		}
		forge(dir, name)
		loads = append(loads, load{name, ""})
	}

	file := filepath.Join(t.TempDir(), "pintle.yaml")
	// A bundle of which no profile uses a plugin is not started at all.
	configuration := func(names ...string) {
		var bundles, predicates string
		for _, name := range names {
			bundles += ", {name: " + name + "}"
			predicates += ", " + name
		}
		text := fmt.Sprintf(`apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
plugins:
  directories: [%s, %s]
  bundles: [{name: classic}%s]
scheduler: {profiles: [{schedulerName: default-scheduler, predicates: [HostName, PodFitsResources%s]}]}
`, filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins"), catalog, bundles, predicates)
		if err := os.Rename(write(t, file+".new", text), file); err != nil {
			t.Fatal(err)
		}
	}
	configuration()
	e := minimal(t, file, "")
	e.placer(t)
	before := e.counts(t)
	for i, l := range loads {
		configuration(l.name) // one by one: the first fault refuses it all
		if err := e.AwaitLog(bound(t), "configuration of plugins not applied; the former one stays in force", "plugin bundle "+l.name, l.why); err != nil {
			t.Fatalf("%s: %v", l.name, err)
		}
		if i%4 == 0 {
			e.ask(t, "beside-"+l.name, "default-scheduler")
			e.placed(t, "beside-"+l.name)
		}
	}
	configuration()
	e.ask(t, "last", "default-scheduler")
	e.placed(t, "last")
	e.returnsTo(t, before, catalog)
	e.stop(t)
}
