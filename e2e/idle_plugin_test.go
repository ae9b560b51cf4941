package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestIdleAPIServerPlugin: the process of an API server that nothing uses ends. What it
// serves is known meanwhile, and requests that come at once start one process. One that
// cannot be started is told of.
func TestIdleAPIServerPlugin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	author(t, dir, "plugin", "init", "apiserver", "notes")
	manifest, err := os.OpenFile(filepath.Join(dir, "notes", "manifest.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = manifest.WriteString("timeouts: {idle: 1s}\n")
	if err := errors.Join(err, manifest.Close()); err != nil {
		t.Fatal(err)
	}
	author(t, dir, "plugin", "build", "notes")
	author(t, dir, "plugin", "package", "notes", "-f", "notes.tar.gz")
	data := filepath.Join(dir, "data")
	// The garbage collector and quotas watch what can be deleted, which is a use.
	e := minimal(t, bareConfig(t), data, "controllers.enabled=[]")
	const ns = "work"
	e.kubectl(t, "create", "namespace", ns)
	in, refused := e.within(t, ns)
	if r, code := e.plugin(t, "install", filepath.Join(dir, "notes.tar.gz"), "--data", data, "--signatures", "off", "--yes"); code != 0 {
		t.Fatalf("install: exit %d\n%s", code, r.stderr)
	}
	e.kubectl(t, "patch", "plugin", "notes", "--type=merge", "-p", `{"spec":{"enabled":true}}`)
	says := func(want string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			const path = "{.status.state}, process {.status.pid}: {.status.message}"
			if r := e.try(t, "get", "plugin", "notes", "-o", "jsonpath="+path); !strings.Contains(r.stdout, want) {
				return fmt.Errorf("plugin notes is %q, want %q\n%s", r.stdout, want, r.stderr)
			}
			return nil
		})
	}
	const idle = "Idle, process : nothing used it for 1s: its process has ended, and the next request starts it"

	says(idle)
	contains(t, e.kubectl(t, "get", "apiservice", "v1.notes.example.com"), "plugin/notes", "True")
	e.kubectl(t, "wait", "--for=condition=Ready", "plugin/notes", "--timeout=60s")
	contains(t, in("api-resources", "--api-group=notes.example.com"), "notes", "Note")
	contains(t, e.kubectl(t, "get", "--raw", "/openapi/v3"), "apis/notes.example.com/v1")
	says(idle) // none of that is a use
	if r, code := e.plugin(t, "list"); code != 0 || !strings.Contains(r.stdout, "Idle") {
		t.Errorf("plugin list: exit %d\n%s%s", code, r.stdout, r.stderr)
	}

	e.apply(t, ns, "{apiVersion: notes.example.com/v1, kind: Note, metadata: {name: one}, spec: {text: some}}")
	says(idle)
	var storm sync.WaitGroup
	for range 40 {
		storm.Go(func() {
			raw, err := e.client.CoreV1().RESTClient().Get().AbsPath("/apis/notes.example.com/v1/namespaces/" + ns + "/notes").DoRaw(t.Context())
			if err != nil || !bytes.Contains(raw, []byte(`"one"`)) {
				t.Errorf("one of many requests at once: %v\n%s", err, raw)
			}
		})
	}
	storm.Wait()
	says(idle)
	contains(t, in("explain", "note.spec"), "What the note says.")

	// Its executable is damaged while it has no process.
	says(idle)
	damaged := 0
	if err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "notes" {
			return err
		}
		damaged++
		return errors.Join(os.Remove(path), os.WriteFile(path, []byte("#!/bin/false\n"), 0o755))
	}); err != nil || damaged == 0 {
		t.Fatalf("%d executables found, %v", damaged, err)
	}
	refused("ServiceUnavailable", "get", "notes")
	says("Failed")
	refused("plugin bundle notes", "get", "notes")
	contains(t, e.kubectl(t, "get", "apiservice", "v1.notes.example.com"), "False (PluginNotAvailable)")
}
