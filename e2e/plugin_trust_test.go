package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// greedy is a package that marks that it ran, and asks for everything.
func greedy(t *testing.T, name, mark, more string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := write(t, filepath.Join(dir, name), "#!/bin/sh\nid > "+mark+"\nsleep 9\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "manifest.yaml"), "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: "+name+"\nversion: 9.9.9\n"+more)
	pintle(t, 0, "plugin", "seal", dir)
	return dir
}

// TestInstallGivesNothing installs packages of attackers beside a kernel that runs:
// one that asks for every right, and one that has the name of a
// bundle to which the configuration grants the kernel's own rights. Neither runs,
// has a role or takes a place.
func TestInstallGivesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", dir).Run() })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	mark, data := filepath.Join(dir, "ran"), filepath.Join(dir, "data")
	config := catalogConfig(t, "")
	replace(t, config, "  - name: classic\n", "  - name: classic\n  - {name: proxies, privileged: true}\n")
	e := minimal(t, config, data)

	all := versioned(t, "9.9.9", "process")
	replace(t, filepath.Join(all, "manifest.yaml"), "plugins:", `rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]`+"\nplugins:")
	contains(t, pintle(t, 0, "plugin", "inspect", all, "--data", data), "rules of the bundle: *: *.*", "Picky (predicate)")
	contains(t, pintle(t, 3, "plugin", "install", all, "--data", data), "rules of the bundle: *: *.*", "nobody is there to say yes")
	pintle(t, 0, "plugin", "install", all, "--data", data, "--yes")

	proxies := greedy(t, "proxies", mark, "privileged: true\nplugins: [{name: iptables, kind: proxy}, {name: userspace, kind: proxy}]\n")
	contains(t, pintle(t, 3, "plugin", "install", proxies, "--data", data, "--yes"), "is a bundle of that name in plugins.directories")
	pintle(t, 0, "plugin", "install", proxies, "--data", data, "--yes", "--replace")
	contains(t, pintle(t, 3, "plugin", "install", greedy(t, "mine", mark, "plugins: [{name: versioned, kind: proxy}]\n"), "--data", data), "its plugin versioned has the name of another bundle")

	for name, version := range map[string]string{"Picky": "9.9.9", "iptables": "9.9.9"} {
		eventually(t, func(context.Context) error {
			out := e.try(t, "get", "plugin", name, "-o", "jsonpath={.status.state} {.status.version} {.status.pid}").stdout
			if strings.TrimSpace(out) != "Disabled "+version {
				return fmt.Errorf("plugin %s: %s", name, out)
			}
			return nil
		})
	}
	if roles := e.kubectl(t, "get", "clusterroles,clusterrolebindings", "-o", "name"); strings.Contains(roles, "pintle:plugin:") {
		t.Errorf("roles of plugins that are not in use:\n%s", roles)
	}
	if running := processesOf(filepath.Join(data, "catalog")); len(running) > 0 {
		t.Errorf("installed bundles run: %v", running)
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("code of a package ran: %v", err)
	}
	contains(t, pintle(t, 0, "plugin", "remove", "versioned", "--data", data), "removed")
	e.stop(t)
}
