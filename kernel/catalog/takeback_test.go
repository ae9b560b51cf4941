package catalog

import (
	"context"
	"errors"
	"os"
	"testing"
)

// What a kernel refuses leaves the lock as it was, to the byte: before the lock names
// it, and after.
func TestRefusedInstallationLeavesTheLock(t *testing.T) {
	no := errors.New("no")
	refuse := func(context.Context, *Installed) error { return no }
	for name, o := range map[string]InstallOptions{"tried": {Try: refuse}, "loaded": {Loaded: refuse}} {
		for _, over := range []bool{false, true} {
			c := newCatalog(t, PolicyOff)
			want := ""
			if over {
				install(t, c, bundle(t, "1.0.0"))
				text, err := os.ReadFile(c.cfg.LockFile)
				if err != nil {
					t.Fatal(err)
				}
				want = string(text)
			}
			if _, err := c.Install(t.Context(), bundle(t, "2.0.0"), o); !errors.Is(err, no) {
				t.Fatalf("%s: %v, want the refusal", name, err)
			}
			lock, err := c.Lock()
			if err != nil {
				t.Fatal(err)
			}
			if !over && len(lock.Bundles) != 0 {
				t.Errorf("%s: the lock names %v, want nothing", name, lock.Names())
			}
			if text, _ := os.ReadFile(c.cfg.LockFile); over && string(text) != want {
				t.Errorf("%s: the lock is\n%s\nwant\n%s", name, text, want)
			}
		}
	}
}

// Who locks another build while a refusal is on its way is not undone.
func TestRefusalUndoesNobodyElse(t *testing.T) {
	c := newCatalog(t, PolicyOff)
	no := errors.New("no")
	_, err := c.Install(t.Context(), bundle(t, "2.0.0"), InstallOptions{Loaded: func(context.Context, *Installed) error {
		install(t, c, bundle(t, "3.0.0"))
		return no
	}})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	lock, err := c.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if b := lock.Bundle("quiet"); b == nil || b.Version.Version != "3.0.0" {
		t.Errorf("the lock has %+v, want 3.0.0", b)
	}
}

// A name or a digest by which somebody wants out of the catalog leads nowhere.
func TestPlaceStaysInTheCatalog(t *testing.T) {
	c := newCatalog(t, PolicyOff)
	got := install(t, c, bundle(t, "1.0.0"))
	if dir, err := c.Place("quiet", got.Digest); err != nil || dir != got.Directory {
		t.Errorf("%s, %v, want %s", dir, err, got.Directory)
	}
	for _, x := range [][2]string{{"other", got.Digest}, {"quiet", "sha256:../../.."}, {"quiet", ""}, {"quiet", "sha256:" + string(make([]byte, 64))}} {
		if dir, err := c.Place(x[0], x[1]); err == nil {
			t.Errorf("%q: %s, want an error", x, dir)
		}
	}
}
