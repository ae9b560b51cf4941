package catalog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLockKeepsComments(t *testing.T) {
	c := newCatalog(t, PolicyOff)
	one := install(t, c, bundle(t, "1.0.0"))
	text, err := os.ReadFile(c.cfg.LockFile)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "# The plugin bundles that are installed") {
		t.Errorf("%s", text)
	}
	mine := strings.Replace(string(text), "  - name: quiet", "  # Ours, ask Ada.\n  - name: quiet # keep", 1)
	mine = strings.Replace(mine, "apiVersion:", "# On top.\napiVersion:", 1)
	if !strings.Contains(mine, "# Ours") {
		t.Fatalf("%s", text)
	}
	if err := os.WriteFile(c.cfg.LockFile, []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}
	install(t, c, bundle(t, "2.0.0"))
	text, err = os.ReadFile(c.cfg.LockFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# On top.", "# Ours, ask Ada.", "# keep", "version: 2.0.0", "previous:", one.Digest, "process/linux/arm64: sha256:"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the lock lacks %q:\n%s", want, text)
		}
	}
	// The same installed twice changes nothing.
	install(t, c, bundle(t, "2.0.0"))
	again, err := os.ReadFile(c.cfg.LockFile)
	if err != nil {
		t.Fatal(err)
	}
	drop := func(s []byte) string { // the folder of the test is another
		var out []string
		for line := range strings.SplitSeq(string(s), "\n") {
			if !strings.Contains(line, "source:") {
				out = append(out, line)
			}
		}
		return strings.Join(out, "\n")
	}
	if drop(text) != drop(again) {
		t.Errorf("lock was\n%s\nis\n%s", text, again)
	}
}

func TestLockFaults(t *testing.T) {
	head := "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginLock\n"
	d := "sha256:" + strings.Repeat("a", 64)
	whole := "{name: a, version: '1', digest: " + d + ", artifacts: {wasm: " + d + "}}"
	for name, c := range map[string]struct{ text, says string }{
		"no YAML":       {"\t", "yaml"},
		"another kind":  {"apiVersion: v1\nkind: Pod\n", "want kernel.pintle.dev/v1alpha1 PluginLock"},
		"unknown key":   {head + "bundels: []\n", "line 3"},
		"aliases":       {head + "bundles: &a []\nx: *a\n", "aliases"},
		"twice":         {head + "bundles: [" + whole + ", " + whole + "]\n", "bundle a is there twice"},
		"bad name":      {head + "bundles: [{name: ../a}]\n", "no name of a bundle"},
		"bad digest":    {head + "bundles: [{name: a, version: '1', digest: sha256:x, artifacts: {wasm: " + d + "}}]\n", "lacks"},
		"bad artifact":  {head + "bundles: [{name: a, version: '1', digest: " + d + ", artifacts: {wasm: x}}]\n", "no digest"},
		"bad candidate": {head + "bundles: [{name: a, version: '1', digest: " + d + ", artifacts: {wasm: " + d + "}, beside: [{version: '2'}]}]\n", "lacks"},
	} {
		_, err := parseLock("plugins.lock", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "correct it, or remove the file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l, err := parseLock("plugins.lock", []byte(head+"bundles: ["+whole+"]\n")); err != nil || l.Bundle("a") == nil {
		t.Error(err)
	}
	if l, err := ReadLock(filepath.Join(t.TempDir(), "none")); err != nil || len(l.Bundles) != 0 {
		t.Error(err)
	}
	// A lock changed by hand does not pass for what is installed.
	catalog := newCatalog(t, PolicyOff)
	got := install(t, catalog, bundle(t, "1.0.0"))
	text, err := os.ReadFile(catalog.cfg.LockFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{"version: 1.0.0", "version: 1.0.1"}, {"wasm: " + got.Artifacts["wasm"], "wasm: " + d}} {
		if err := os.WriteFile(catalog.cfg.LockFile, []byte(strings.Replace(string(text), change[0], change[1], 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := catalog.Find("quiet", "", ""); err == nil || !strings.Contains(err.Error(), "install it again") {
			t.Errorf("%s: %v", change[1], err)
		}
	}
}

func FuzzLock(f *testing.F) {
	d := "sha256:" + strings.Repeat("a", 64)
	f.Add([]byte("apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginLock\nbundles:\n# c\n- name: a\n  version: '1'\n  digest: " + d + "\n  artifacts: {wasm: " + d + "}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := parseLock("plugins.lock", data)
		if err != nil {
			return
		}
		text, err := l.text()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseLock("plugins.lock", text); err != nil {
			t.Errorf("what was written is not read: %v\n%s", err, text)
		}
	})
}
