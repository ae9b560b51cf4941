package plugincmd

import (
	"testing"
)

// A word without a slash is a bundle's name, whatever lies in the present folder.
func TestNameOrSource(t *testing.T) {
	for arg, want := range map[string]bool{
		"quiet": true, "quiet.v2": true, "./quiet": false, "quiet/": false, "../quiet": false, "/quiet": false, "-": false, "": false,
		"quiet.tar.gz": false, "quiet.tar": false, "quiet.tgz": false, "registry.example.com/plugins/quiet:1.0.0": false,
	} {
		if got := isBundleName(arg); got != want {
			t.Errorf("%q: a name %t, want %t", arg, got, want)
		}
	}
}
