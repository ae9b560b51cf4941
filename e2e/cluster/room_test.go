package cluster

import (
	"strings"
	"testing"
)

// A test wants room in bytes, however large the disk is, and says what it lacks.
func TestEnough(t *testing.T) {
	for free, want := range map[uint64]string{
		1 << 40:   "",
		2 << 30:   "",
		2<<30 - 1: "the disk of /tmp has 2047 MiB free, and a test wants 2048: its node evicts pods below 1024;",
		0:         "0 MiB free",
	} {
		err := enough("/tmp", free)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, want %q", free, err, want)
		}
	}
}
