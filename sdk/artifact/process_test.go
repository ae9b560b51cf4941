package artifact

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A process that does not start says why: what it printed stands in the error, and one
// that never begins to speak is told from one that is gone.
func TestStartSaysWhy(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"a traceback", "echo 'Traceback (most recent call last):' >&2\necho 'ModuleNotFoundError: grpc' >&2\nexit 1\n", "it printed:\nTraceback (most recent call last):\nModuleNotFoundError: grpc"},
		{"a line that is no handshake", "echo 'the reason' >&2\nsleep 0.2\necho hello\nexit 1\n", "it printed:\nthe reason"},
		{"the end of much", "i=0\nwhile [ $i -lt 500 ]; do echo \"line $i ............\" >&2; i=$((i+1)); done\necho last >&2\nexit 1\n", "the last that it printed:\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := OpenProcess(t.Context(), script(t, test.script), Options{})
			if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, ErrNoAnswer) {
				t.Errorf("got %v\nwant %q", err, test.want)
			}
			if len(err.Error()) > maxSaid+1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
	// The environment that sdk/README.md promises, with a folder that is there.
	_, err := OpenProcess(t.Context(), script(t, "test -d \"$PLUGIN_UNIX_SOCKET_DIR\" && test \"$PINTLE_PLUGIN\" = kernel.pintle.dev/v1 && test -n \"$PLUGIN_CLIENT_CERT\" && echo as promised >&2\nexit 1\n"), Options{})
	if err == nil || !strings.Contains(err.Error(), "as promised") {
		t.Errorf("the environment: %v", err)
	}
	_, err = OpenProcess(t.Context(), script(t, "echo waiting >&2\nexec sleep 60\n"), Options{CallTimeout: 2 * time.Second})
	if !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "waiting") {
		t.Errorf("one that says nothing: %v", err)
	}
}

func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// A trap names the functions that were on the stack.
func TestTrapped(t *testing.T) {
	err := trapped(errors.New("wasm error: unreachable\nwasm stack trace:\n\t.compare(i32,i32) i32\n\t\t0x12: /src/main.c:3\n\tname.pintle_filter(i32,i32,i32,i32,i32) i32"))
	if want := "wasm error: unreachable, in compare called by name.pintle_filter"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if err := trapped(errors.New("module closed with exit_code(2)")); err.Error() != "module closed with exit_code(2)" {
		t.Errorf("got %q", err)
	}
}
