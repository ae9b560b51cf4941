package containerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A runc without seccomp is told of at the start, whatever it answers.
func TestSeccompLack(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"with":       {`echo '{"linux":{"seccomp":{"enabled":true}}}'`, ""},
		"without":    {`echo '{"linux":{"seccomp":{"enabled":false}}}'`, "built without seccomp"},
		"not a word": {`echo '{"linux":{}}'`, "built without seccomp"},
		"old":        {"exit 1", "does not say"},
		"no JSON":    {"echo hello", "does not say"},
	} {
		t.Run(name, func(t *testing.T) {
			runc := filepath.Join(t.TempDir(), "runc")
			if err := os.WriteFile(runc, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			if got := seccompLack(t.Context(), runc); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
