package containerd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestShimOf(t *testing.T) {
	l := layout{tools: "/t", socket: "/s/c.sock"}
	for args, want := range map[string]string{
		"/t/containerd-shim-runc-v2 -namespace k8s.io -id a1 -address /s/c.sock":       "a1",
		"/t/containerd-shim-runc-v2 -namespace k8s.io -id a1 -address /s/c.sock start": "",
		"/t/containerd-shim-runc-v2 -namespace k8s.io -id a1 -address /other/c.sock":   "",
		"/usr/bin/containerd-shim-runc-v2 -namespace k8s.io -id a1 -address /s/c.sock": "",
		"/t/containerd-shim-runc-v2 -namespace k8s.io -address /s/c.sock":              "",
		"/t/containerd-shim-runc-v2 -namespace k8s.io -address /s/c.sock -id":          "",
		"vi /t/containerd-shim-runc-v2":                                                "",
		"":                                                                             "",
	} {
		if got := shimOf(l, []byte(strings.ReplaceAll(args, " ", "\x00")+"\x00")); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// A shim without a folder is ended; one with a folder, and one of another daemon, stay.
func TestKillOrphanShims(t *testing.T) {
	dir := t.TempDir()
	l := newLayout(filepath.Join(dir, "data"), filepath.Join(dir, "state"), filepath.Join(dir, "tools"))
	if err := os.MkdirAll(filepath.Join(l.tasks, "living"), 0o755); err != nil {
		t.Fatal(err)
	}
	shim := func(id, socket string) *exec.Cmd {
		t.Helper()
		cmd := exec.Command("/bin/sh")
		cmd.Args = []string{filepath.Join(l.tools, "containerd-shim-runc-v2"), "-c", "echo; read x", "-namespace", "k8s.io", "-id", id, "-address", socket}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close() })
		if _, err := out.Read(make([]byte, 1)); err != nil { // it is what its command line says
			t.Fatal(err)
		}
		return cmd
	}
	living, orphan, other := shim("living", l.socket), shim("orphan", l.socket), shim("orphan", "/elsewhere.sock")
	for range 2 { // the second time there is none
		if err := killOrphanShims(l); err != nil {
			t.Fatal(err)
		}
	}
	err := orphan.Wait()
	if status, ok := orphan.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("the orphan ended with %v", err)
	}
	for _, cmd := range []*exec.Cmd{living, other} {
		if err := cmd.Process.Signal(syscall.Signal(0)); err != nil || gone(cmd.Process.Pid) {
			t.Errorf("%q was ended: %v", cmd.Args, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
	}
}
