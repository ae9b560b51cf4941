package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A build on a machine without libseccomp does not make a runc without seccomp
// silently: it installs what is missing, or fails and says what to do, or was
// told to go without.
func TestBuildNeedsSeccomp(t *testing.T) {
	for name, c := range map[string]struct {
		pkgConfig, aptGet, without string
		want                       string // of the output; empty: the build goes on
	}{
		"there":            {pkgConfig: "exit 0", aptGet: "exit 1"},
		"cannot be had":    {pkgConfig: "exit 1", aptGet: "exit 1", want: "WITHOUT_SECCOMP=1"},
		"installs nothing": {pkgConfig: "exit 1", aptGet: "exit 0", want: "WITHOUT_SECCOMP=1"},
		"without":          {pkgConfig: "exit 1", aptGet: "exit 1", without: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for tool, script := range map[string]string{"pkg-config": c.pkgConfig, "apt-get": c.aptGet} {
				if err := os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("make", "libseccomp", "BIN="+dir, "WITHOUT_SECCOMP="+c.without)
			cmd.Dir, cmd.Env = "..", append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if (err == nil) != (c.want == "") || !strings.Contains(string(out), c.want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
