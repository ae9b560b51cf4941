package e2e

import (
	"testing"
)

// TestNetworkPlugin: the template of a network is built, passes its own tests and the contract's, and
// makes a bundle, as its author has it.
func TestNetworkPlugin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	author(t, dir, "plugin", "init", "network", "byprogram")
	contains(t, author(t, dir, "plugin", "test", "byprogram"), "networks")
	author(t, dir, "plugin", "package", "byprogram", "-f", "byprogram.tar.gz")
	contains(t, author(t, dir, "plugin", "inspect", "byprogram.tar.gz"), "byprogram", "network")
}
