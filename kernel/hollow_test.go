package kernel

import (
	"net/netip"
	"testing"

	"pintle.dev/pintle/kernel/config"
)

// TestHollowCIDR: ranges of hollow nodes are apart, within the range of all,
// and hold what a node takes.
func TestHollowCIDR(t *testing.T) {
	all := netip.MustParsePrefix(config.HollowPodRange)
	last := netip.Prefix{}
	for _, i := range []int{0, 1, 2, 511, 512, 65535} {
		s, err := hollowCIDR(i)
		if err != nil {
			t.Fatal(err)
		}
		p := netip.MustParsePrefix(s)
		if p.Bits() != hollowCIDRBits || p != p.Masked() || !all.Contains(p.Addr()) || last.IsValid() && p.Overlaps(last) {
			t.Errorf("node %d has %s after %s", i, p, last)
		}
		last = p
	}
	for _, i := range []int{-1, 65536} {
		if s, err := hollowCIDR(i); err == nil {
			t.Errorf("node %d has %s", i, s)
		}
	}
}
