package plugin

import (
	"os"
	"path/filepath"
	"testing"
)

// A cache that somebody else can write to, or did, is not used: what is in it would
// run in this process.
func TestModuleCache(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, bundle, cache string)
		own   bool // the host's own is used
	}{
		"sealed by this user":     {func(*testing.T, string, string) {}, false},
		"not compiled":            {func(t *testing.T, _, cache string) { must(t, os.RemoveAll(cache)) }, true},
		"writable for all":        {func(t *testing.T, _, cache string) { must(t, os.Chmod(cache, 0o777)) }, true},
		"writable for a group":    {func(t *testing.T, _, cache string) { must(t, os.Chmod(cache, 0o775)) }, true},
		"a file writable for all": {func(t *testing.T, _, cache string) { must(t, os.Chmod(filepath.Join(cache, "native"), 0o666)) }, true},
		"a link to elsewhere": {func(t *testing.T, bundle, cache string) {
			must(t, os.Rename(cache, cache+"-former"))
			must(t, os.Chmod(cache+"-former", 0o777))
			must(t, os.Symlink(cache+"-former", cache))
		}, true},
		"a link within":             {func(t *testing.T, _, cache string) { must(t, os.Symlink("/etc/passwd", filepath.Join(cache, "link"))) }, true},
		"a bundle writable for all": {func(t *testing.T, bundle, _ string) { must(t, os.Chmod(bundle, 0o777)) }, true},
		"of another user": {func(t *testing.T, _, cache string) {
			if os.Geteuid() != 0 {
				t.Skip("giving a file away needs root")
			}
			must(t, os.Lchown(filepath.Join(cache, "native"), 61234, 61234))
		}, true},
		"a bundle of another user": {func(t *testing.T, bundle, _ string) {
			if os.Geteuid() != 0 {
				t.Skip("giving a file away needs root")
			}
			must(t, os.Lchown(bundle, 61234, 61234))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			bundle, own := filepath.Join(t.TempDir(), "bundle"), filepath.Join(t.TempDir(), "cache")
			cache := filepath.Join(bundle, compiledDirectory)
			must(t, os.MkdirAll(cache, 0o755))
			must(t, os.WriteFile(filepath.Join(cache, "native"), nil, 0o644))
			tc.spoil(t, bundle, cache)
			want := cache
			if tc.own {
				want = own
			}
			if got := moduleCache(bundle, own); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if !tc.own {
				return
			}
			// Nor is the host's own, if that is somebody else's.
			must(t, os.MkdirAll(own, 0o700))
			must(t, os.Chmod(own, 0o777))
			if got := moduleCache(bundle, own); got != "" {
				t.Errorf("%s is used", got)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
