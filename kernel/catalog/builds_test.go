package catalog

import (
	"log/slog"
	"slices"
	"testing"
)

// Among several builds of one version that lie beside each other somebody has to
// choose; former ones count where nothing else is of the version.
func TestBuilds(t *testing.T) {
	v := func(version, digest string) Version { return Version{Version: version, Digest: digest} }
	for name, c := range map[string]struct {
		locked Locked
		want   []string
	}{
		"one in use":                         {Locked{Version: v("3", "a")}, nil},
		"in use, and former ones":            {Locked{Version: v("3", "a"), Previous: []Version{v("3", "b"), v("3", "c")}}, nil},
		"beside the one in use":              {Locked{Version: v("3", "a"), Beside: []Version{v("3", "b")}}, []string{"a", "b"}},
		"two beside another":                 {Locked{Version: v("2", "x"), Beside: []Version{v("3", "a"), v("3", "b")}}, []string{"a", "b"}},
		"one beside another, and a former":   {Locked{Version: v("2", "x"), Beside: []Version{v("3", "a")}, Previous: []Version{v("3", "b")}}, nil},
		"former ones alone":                  {Locked{Version: v("4", "x"), Previous: []Version{v("3", "a"), v("3", "b")}}, []string{"a", "b"}},
		"another version, beside each other": {Locked{Version: v("2", "x"), Beside: []Version{v("4", "a"), v("4", "b")}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.locked.Name = "x"
			catalog, err := New(Config{Directory: t.TempDir(), LockFile: t.TempDir() + "/lock"}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			catalog.Pin(&Lock{Bundles: []Locked{c.locked}})
			if got := catalog.Builds("x", "3"); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
