package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestAPIServerPlugin: the template of an API server, as its author has it, in a kernel.
func TestAPIServerPlugin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	author(t, dir, "plugin", "init", "apiserver", "notes")
	contains(t, author(t, dir, "plugin", "test", "notes"), "API servers")
	author(t, dir, "plugin", "package", "notes", "-f", "notes.tar.gz")
	config, data := bareConfig(t), filepath.Join(dir, "data")
	e := minimal(t, config, data)
	const ns = "work"
	e.kubectl(t, "create", "namespace", ns)
	in, refused := e.within(t, ns)
	const service = "v1.notes.example.com"
	shows := func(words ...string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			r := e.try(t, "get", "apiservice", service)
			for _, word := range words {
				if !strings.Contains(r.stdout+r.stderr, word) {
					return errors.New(r.stdout + r.stderr)
				}
			}
			return nil
		})
	}
	says := func(want, path string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			if r := e.try(t, "get", "plugin", "notes", "-o", "jsonpath="+path); !strings.Contains(r.stdout, want) {
				return fmt.Errorf("plugin notes: %s is %q, want %q\n%s", path, r.stdout, want, r.stderr)
			}
			return nil
		})
	}
	enable := func(on bool) {
		t.Helper()
		e.kubectl(t, "patch", "plugin", "notes", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"enabled":%t}}`, on))
	}

	// What it serves is what an operator agrees to; nothing of it is there before it is on.
	r, code := e.plugin(t, "install", filepath.Join(dir, "notes.tar.gz"), "--data", data, "--signatures", "off")
	if code != 3 || !strings.Contains(r.stderr, "API server notes: serves notes.example.com/v1, and sees each request for it") {
		t.Fatalf("install without a yes: exit %d\n%s", code, r.stderr)
	}
	if r, code := e.plugin(t, "install", filepath.Join(dir, "notes.tar.gz"), "--data", data, "--signatures", "off", "--yes"); code != 0 {
		t.Fatalf("install: exit %d\n%s", code, r.stderr)
	}
	says("Disabled", "{.status.state}")
	shows("NotFound")

	// Somebody has the group version already: nothing is taken from him.
	e.apply(t, ns, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: papers.notes.example.com}
spec:
  group: notes.example.com
  scope: Namespaced
  names: {plural: papers, singular: paper, kind: Paper}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	shows("Local", "True")
	enable(true)
	says("refused: notes.example.com/v1 is served by a CustomResourceDefinition", "{.status.message}")
	shows("Local", "True")
	in("delete", "crd", "papers.notes.example.com")
	shows("plugin/notes", "True")
	says("Ready", "{.status.state}")

	t.Run("kubectl", func(t *testing.T) {
		eventually(t, func(context.Context) error {
			if r := e.try(t, "explain", "note.spec"); !strings.Contains(r.stdout, "What the note says.") {
				return errors.New(r.stdout + r.stderr)
			}
			return nil
		})
		contains(t, in("api-resources", "--api-group=notes.example.com"), "notes", "Note")
		e.apply(t, ns, "{apiVersion: notes.example.com/v1, kind: Note, metadata: {name: one, labels: {a: b}}, spec: {text: some}}")
		contains(t, in("get", "notes", "-l", "a=b"), "NAME", "one")
		contains(t, in("patch", "note", "one", "--type=merge", "-p", `{"spec":{"text":"other"}}`), "patched")
		contains(t, in("get", "note", "one", "-o", "yaml"), "text: other", "namespace: "+ns)
		refused("NotFound", "get", "note", "none")
		refused("AlreadyExists", "create", "-f", writeFile(t, "{apiVersion: notes.example.com/v1, kind: Note, metadata: {name: one}}"))
		e.awaitWatched(t, ns, "notes", "one", "note.notes.example.com/one")
	})

	t.Run("rights", func(t *testing.T) {
		in("create", "serviceaccount", "reader")
		as := "--as=system:serviceaccount:" + ns + ":reader"
		refused("Forbidden", "get", "notes", as)
		in("create", "role", "reading", "--verb=get,list", "--resource=notes.notes.example.com")
		in("create", "rolebinding", "reading", "--role=reading", "--serviceaccount="+ns+":reader")
		eventually(t, func(context.Context) error {
			if r := e.try(t, "-n", ns, "get", "notes", as); r.err != nil {
				return errors.New(r.stderr)
			}
			return nil
		})
		refused("Forbidden", "delete", "note", "one", as)
	})

	t.Run("others", func(t *testing.T) {
		// The group version is the plugin's: an APIService of its name is there already,
		// and a CustomResourceDefinition of it waits behind the plugin.
		refused("AlreadyExists", "create", "-f", writeFile(t, "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: "+service+"}, spec: {group: notes.example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service: {namespace: ns, name: svc}}}"))
		in("delete", "apiservice", service)
		shows("plugin/notes", "True")
		contains(t, in("get", "notes"), "one")
	})

	t.Run("controllers", func(t *testing.T) {
		t.Cleanup(func() {
			if !t.Failed() {
				return
			}
			for line := range strings.Lines(e.kubectl(t, "get", "--raw", "/metrics")) { // is it waiting, at work, or trying again
				if strings.Contains(line, "garbage_collector") && strings.HasPrefix(line, "workqueue_") && !strings.Contains(line, "_bucket{") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
		in("create", "configmap", "owner")
		uid := in("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
		e.apply(t, ns, "{apiVersion: notes.example.com/v1, kind: Note, metadata: {name: owned, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: "+uid+"}]}}")
		in("delete", "configmap", "owner")
		eventually(t, func(context.Context) error {
			if out := in("get", "notes"); strings.Contains(out, "owned") {
				return errors.New(out)
			}
			return nil
		})
		in("create", "namespace", "desk")
		e.apply(t, "desk", "{apiVersion: notes.example.com/v1, kind: Note, metadata: {name: lies}}")
		in("delete", "namespace", "desk", "--timeout=60s")
		if out := in("get", "notes", "-A"); strings.Contains(out, "lies") {
			t.Errorf("the namespace is gone, and of it there is:\n%s", out)
		}
	})

	t.Run("quota", func(t *testing.T) {
		// As of any aggregated server: the objects are counted, and given back when they
		// go. The server alone could refuse one more.
		e.apply(t, ns, "{apiVersion: notes.example.com/v1, kind: Note, metadata: {name: two}}")
		in("create", "quota", "few", "--hard=count/notes.notes.example.com=1")
		used := func(want string) {
			t.Helper()
			eventually(t, func(context.Context) error {
				if out := in("get", "quota", "few", "-o", "jsonpath={.status.used}"); !strings.Contains(out, `"`+want+`"`) {
					return fmt.Errorf("the quota says %s, want %s notes", out, want)
				}
				return nil
			})
		}
		used("2")
		in("delete", "note", "two")
		used("1")
		in("delete", "quota", "few")
	})

	t.Run("killed", func(t *testing.T) {
		pid, err := strconv.Atoi(in("get", "plugin", "notes", "-o", "jsonpath={.status.pid}"))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(context.Context) error {
			if out := in("get", "plugin", "notes", "-o", "jsonpath={.status.pid}"); out == strconv.Itoa(pid) {
				return errors.New("it is not started again")
			}
			if r := e.try(t, "-n", ns, "get", "notes"); !strings.Contains(r.stdout, "one") {
				return errors.New(r.stderr)
			}
			return nil
		})
	})

	t.Run("upgrade", func(t *testing.T) {
		path := filepath.Join(dir, "notes", "manifest.yaml")
		manifest, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		next := strings.Replace(string(manifest), "0.1.0", "0.2.0", 1)
		next = strings.Replace(next, "    version: v1\n", "    version: v1\n  - {group: papers.example.com, version: v1}\n", 1)
		if err := os.WriteFile(path, []byte(next), 0o600); err != nil {
			t.Fatal(err)
		}
		author(t, dir, "plugin", "build", "notes")
		author(t, dir, "plugin", "package", "notes", "-f", "next.tar.gz")
		if r, code := e.plugin(t, "install", filepath.Join(dir, "next.tar.gz"), "--data", data, "--signatures", "off"); code != 3 || !strings.Contains(r.stderr, "serves papers.example.com/v1") {
			t.Fatalf("a version that serves more, without a yes: exit %d\n%s", code, r.stderr)
		}
		if r, code := e.plugin(t, "install", filepath.Join(dir, "next.tar.gz"), "--data", data, "--signatures", "off", "--yes"); code != 0 {
			t.Fatalf("install: exit %d\n%s", code, r.stderr)
		}
		says("0.2.0", "{.status.version}")
		// It says that it serves a group, and does not.
		eventually(t, func(context.Context) error {
			if out := in("get", "apiservices"); !strings.Contains(out, "v1.papers.example.com") || !strings.Contains(out, "False (PluginNotAvailable)") {
				return errors.New(out)
			}
			return nil
		})
		refused("bad status from /apis/papers.example.com/v1: 404", "get", "--raw", "/apis/papers.example.com/v1")
		contains(t, in("get", "notes"), "one")
		if r, code := e.plugin(t, "rollback", "notes"); code != 0 {
			t.Fatalf("rollback: exit %d\n%s", code, r.stderr)
		}
		says("0.1.0", "{.status.version}")
		eventually(t, func(context.Context) error {
			if out := in("get", "apiservices"); strings.Contains(out, "papers") {
				return errors.New(out)
			}
			return nil
		})
		contains(t, in("get", "notes"), "one")
		if r, code := e.plugin(t, "shadow", "notes", "--version", "0.2.0"); code == 0 || !strings.Contains(r.stderr, "predicates and priorities") {
			t.Errorf("shadow of an API server: exit %d\n%s", code, r.stderr)
		}
	})

	t.Run("off", func(t *testing.T) {
		enable(false)
		shows("NotFound")
		eventually(t, func(context.Context) error {
			if r := e.try(t, "get", "--raw", "/apis/notes.example.com/v1"); !strings.Contains(r.stderr, "NotFound") {
				return errors.New(r.stdout + r.stderr)
			}
			return nil
		})
		enable(true)
		shows("plugin/notes", "True")
		contains(t, in("get", "notes"), "one") // it kept them
	})

	// What a kernel that was killed left goes with the plugin, at the next start.
	e.Kill()
	if r, code := e.plugin(t, "remove", "notes", "--data", data); code != 0 {
		t.Fatalf("remove: exit %d\n%s%s", code, r.stdout, r.stderr)
	}
	e = minimal(t, config, data)
	shows("NotFound")
	contains(t, e.kubectl(t, "-n", ns, "get", "configmaps"), "note.one")
}

// awaitWatched waits until a watch of a resource tells of an object, which is changed
// meanwhile; told is how kubectl names it.
func (e *env) awaitWatched(t *testing.T, ns, resource, object, told string) {
	t.Helper()
	program, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	watch := e.Command(ctx, program, "-n", ns, "get", resource, "--watch-only", "-o", "name")
	seen, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	var changes sync.WaitGroup
	changes.Go(func() { // until the watch tells of one, which it may have begun late for
		for i := 0; ctx.Err() == nil; i++ {
			_ = e.try(t, "-n", ns, "annotate", "--overwrite", resource, object, fmt.Sprintf("n=%d", i))
		}
	})
	defer changes.Wait()
	defer cancel()
	line := make([]byte, 128)
	n, err := seen.Read(line)
	if err != nil || !strings.Contains(string(line[:n]), told) {
		t.Errorf("watch: %q, %v, want %q", line[:n], err, told)
	}
	cancel()
	_ = watch.Wait()
}

// writeFile makes a file of a text.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "object.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
