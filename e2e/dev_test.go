package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// screen is what a running program has written so far.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// TestDev: pintle plugin dev swaps each build of a plugin into a running kernel,
// says so and shows its log; after a build that fails it goes on; Ctrl-C ends it
// and all that it started.
func TestDev(t *testing.T) {
	t.Parallel()
	binary(t, "pintle")
	if _, err := exec.LookPath("go"); err != nil {
		skip(t, "the plugin is built by go")
	}
	work := t.TempDir()
	data := filepath.Join(work, "data")
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", data).Run() }) // what is in the catalog is read-only
	author(t, work, "plugin", "init", "predicate", "tiers")
	source := filepath.Join(work, "tiers", "main.go")
	edit := func(old, new string) {
		t.Helper()
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), old) {
			t.Fatalf("main.go has no %q:\n%s", old, text)
		}
		write(t, source, strings.ReplaceAll(string(text), old, new))
	}
	e := minimal(t, catalogConfig(t, ""), data)
	e.placer(t)

	var out screen
	cmd := exec.Command(binary(t, "pintle"), "plugin", "dev", "tiers", "--data", data, "--enable")
	cmd.Dir, cmd.Stdout, cmd.Stderr = work, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	group := cmd.Process.Pid
	t.Cleanup(func() {
		_ = syscall.Kill(-group, syscall.SIGKILL) // nobody is left, unless the test failed
		if t.Failed() {
			t.Logf("dev wrote:\n%s", out.String())
		}
	})
	// The first build compiles the SDK, twice.
	says := func(words ...string) {
		t.Helper()
		within(t, documentPatience, func(context.Context) error {
			for _, w := range words {
				if !strings.Contains(out.String(), w) {
					return fmt.Errorf("dev does not say %q:\n%s", w, out.String())
				}
			}
			return nil
		})
	}
	rounds := func(n int) {
		t.Helper()
		within(t, documentPatience, func(context.Context) error {
			if got := strings.Count(out.String(), "watching tiers; Ctrl-C ends it"); got < n {
				return fmt.Errorf("%d rounds, want %d", got, n)
			}
			return nil
		})
	}
	says("built tiers in ", "installed tiers 0.1.0, sha256:", "Tiers is in force in version 0.1.0, ", "  | ", "plugin bundle is ready")
	rounds(1)
	e.apply(t, "default", "apiVersion: v1\nkind: Pod\nmetadata: {name: golden, labels: {example.com/tier: gold}}\nspec:\n"+
		"  tolerations: [{operator: Exists}]\n  containers: [{name: c, image: i}]\n")
	e.refused(t, "golden", "2 node(s) were of another tier")

	edit("node(s) were of another tier", "node(s) were not of the right metal")
	rounds(2)
	e.refused(t, "golden", "2 node(s) were not of the right metal")

	edit("sdk.Fits()", "sdk.Fitts()")
	says("undefined: sdk.Fitts")
	rounds(3)
	edit("sdk.Fitts()", "sdk.Fits()")
	edit("of the right metal", "golden")
	rounds(4)
	e.refused(t, "golden", "2 node(s) were not golden")

	// One that panics as it starts is told by the build, and one that breaks when it is
	// asked by the kernel, at once; the build before stays in force.
	edit("func main", "func init() { panic(\"on purpose\") }\n\nfunc main")
	says("panic: on purpose")
	rounds(5)
	edit("func init() { panic(\"on purpose\") }\n\n", "")
	edit("\tif tier := ", "\tfor r.Pod != nil {\n\t}\n\tif tier := ")
	says("tiers 0.1.0 is not installed: the kernel refused it", "broke when it was tried")
	rounds(6)
	if text := out.String(); strings.Contains(text, "the kernel's log says why") {
		t.Errorf("dev refers to the log:\n%s", text)
	}
	e.refused(t, "golden", "2 node(s) were not golden")

	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("dev ends with %v", err)
	}
	if err := syscall.Kill(-group, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("something of dev runs on: %v", err)
	}
	contains(t, e.kubectl(t, "get", "plugins", "Tiers"), "Ready") // the last build stays
	e.stop(t)
}
