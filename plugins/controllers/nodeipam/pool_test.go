package nodeipam

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func pools(t *testing.T, config string) []*pool {
	t.Helper()
	c, err := readConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.pools()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Which configurations there are, and what is said of others.
func TestConfig(t *testing.T) {
	for in, want := range map[string]string{ // pools, or the fault
		`{"clusterCIDR":"10.244.0.0/16"}`:                                  "10.244.0.0/16 in 256 of /24",
		`{"clusterCIDR":" 10.244.7.9/16 "}`:                                "10.244.0.0/16 in 256 of /24",
		`{"clusterCIDR":"10.244.0.0/16","nodeCIDRMaskSize":20}`:            "10.244.0.0/16 in 16 of /20",
		`{"clusterCIDR":"10.244.0.0/16","nodeCIDRMaskSizeIPv4":16}`:        "10.244.0.0/16 in 1 of /16",
		`{"clusterCIDR":"fd00::/48"}`:                                      "fd00::/48 in 65536 of /64",
		`{"clusterCIDR":"fd00::/112","nodeCIDRMaskSizeIPv6":120}`:          "fd00::/112 in 256 of /120",
		`{"clusterCIDR":"fd00::/56, 10.0.0.0/8"}`:                          "fd00::/56 in 256 of /64; 10.0.0.0/8 in 65536 of /24",
		`{"clusterCIDR":"10.0.0.0/8,fd00::/60","nodeCIDRMaskSizeIPv4":32}`: "10.0.0.0/8 in 16777216 of /32; fd00::/60 in 16 of /64",
		`{}`:                                    "clusterCIDR is empty",
		`{"clusterCIDR":"x"}`:                   `clusterCIDR: "x" is not an address range`,
		`{"clusterCIDR":"::ffff:10.0.0.0/104"}`: "is not an address range",
		`{"clusterCIDR":"10.0.0.0/16,10.1.0.0/16"}`:                                                      "more than one range of each IP family",
		`{"clusterCIDR":"10.0.0.0/16,fd00::/64,fd01::/64"}`:                                              "more than one range of each IP family",
		`{"clusterCIDR":"10.0.0.0/16","nodeCIDRMaskSize":15}`:                                            "/15 is not within clusterCIDR 10.0.0.0/16",
		`{"clusterCIDR":"10.0.0.0/16","nodeCIDRMaskSize":33}`:                                            "/33 is not within",
		`{"clusterCIDR":"10.0.0.0/7","nodeCIDRMaskSize":32}`:                                             "/32 is too small for clusterCIDR 10.0.0.0/7: want /31 or larger",
		`{"clusterCIDR":"fd00::/47"}`:                                                                    "too small for clusterCIDR fd00::/47: want /63",
		`{"clusterCIDR":"10.0.0.0/16","nodeCIDRMaskSizeIPv6":64}`:                                        "is of IPv4",
		`{"clusterCIDR":"fd00::/64","nodeCIDRMaskSizeIPv4":24}`:                                          "is of IPv6",
		`{"clusterCIDR":"10.0.0.0/16,fd00::/60","nodeCIDRMaskSize":24}`:                                  "is for one range",
		`{"clusterCIDR":"10.0.0.0/16","nodeCIDRMaskSize":24,"nodeCIDRMaskSizeIPv4":24}`:                  "is not possible beside",
		`{"clusterCIDR":"10.0.0.0/16","serviceCIDR":"nonsense"}`:                                         `serviceCIDR: "nonsense" is not`,
		`{"clusterCIDR":"10.0.0.0/16","reservedCIDRs":["10.0.0.0/24","nonsense"]}`:                       `reservedCIDRs: "nonsense" is not`,
		`{"clusterCIDR":"10.0.0.0/16","serviceCIDR":"10.1.0.0/16","secondaryServiceCIDR":"10.2.0.0/16"}`: "are of one IP family",
	} {
		c, err := readConfig([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		var got []string
		made, err := c.pools()
		for _, p := range made {
			got = append(got, fmt.Sprintf("%s in %d of /%d", p.cluster, p.blocks, p.bits))
		}
		if text := strings.Join(got, "; "); err == nil && text != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v, want %q", in, text, err, want)
		}
	}
	for _, in := range []string{`{"clusterCidrs":"10.0.0.0/16"}`, `{"nodeCIDRMaskSize":-1}`, `{"nodeCIDRMaskSizeIPv4":33}`, `{"nodeCIDRMaskSizeIPv6":129}`, `[]`} {
		if _, err := readConfig([]byte(in)); err == nil {
			t.Errorf("%s is taken", in)
		}
	}
}

// Blocks are numbered without gaps or overlaps, wherever the halves of an address meet.
func TestBlocks(t *testing.T) {
	for _, tt := range []struct {
		cluster     string
		bits, block int
		want        string
	}{
		{"10.244.0.0/16", 24, 15, "10.244.15.0/24"}, {"192.168.5.208/28", 32, 11, "192.168.5.219/32"}, {"10.0.0.0/8", 32, 1<<24 - 1, "10.255.255.255/32"},
		{"10.9.9.9/32", 32, 0, "10.9.9.9/32"}, {"2001:db8::/32", 48, 6425, "2001:db8:1919::/48"}, {"2001:db8:85a3::/50", 63, 6425, "2001:db8:85a3:3232::/63"},
		{"2001:db8:1234:ff00::/56", 72, 6425, "2001:db8:1234:ff19:1900::/72"}, {"2001:db8:1234:0:1234::/80", 96, 15, "2001:db8:1234:0:1234:f::/96"},
		{"fd00::/64", 64, 0, "fd00::/64"}, {"fd00::/112", 128, 65535, "fd00::ffff/128"},
	} {
		p, err := newPool(netip.MustParsePrefix(tt.cluster), tt.bits)
		if err != nil {
			t.Fatal(err)
		}
		got := p.prefix(tt.block)
		if got.String() != tt.want || p.block(got.Addr()) != tt.block {
			t.Errorf("block %d of %s: %s, want %s; that is block %d", tt.block, tt.cluster, got, tt.want, p.block(got.Addr()))
		}
	}
	for _, cluster := range []string{"10.0.0.0/20", "fd00:0:0:fff0::/60"} {
		p, err := newPool(netip.MustParsePrefix(cluster), netip.MustParsePrefix(cluster).Bits()+8)
		if err != nil {
			t.Fatal(err)
		}
		for b := range p.blocks {
			own := p.prefix(b)
			if s, ok := p.span(own); !ok || s != (span{b, b}) || !p.cluster.Contains(own.Addr()) || b > 0 && own.Overlaps(p.prefix(b-1)) {
				t.Fatalf("block %d of %s is %s, which is %+v", b, cluster, own, s)
			}
		}
	}
}

// The blocks that a range touches are those that overlap it.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, cluster := range []string{"10.244.0.0/18", "fd00:0:0:4000::/58"} {
		c := netip.MustParsePrefix(cluster)
		p, err := newPool(c, c.Bits()+6)
		if err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			bits := 1 + r.IntN(c.Addr().BitLen())
			b := c.Addr().As16()
			for i := range 8 + r.IntN(8) {
				if r.IntN(3) == 0 {
					b[15-i] ^= byte(r.IntN(256))
				}
			}
			a := netip.AddrFrom16(b)
			if c.Addr().Is4() {
				a = netip.AddrFrom4([4]byte(b[12:]))
			}
			q := netip.PrefixFrom(a, bits).Masked()
			s, ok := p.span(q)
			for block := range p.blocks {
				if in := ok && s.first <= block && block <= s.last; in != p.prefix(block).Overlaps(q) {
					t.Fatalf("%s and block %d (%s) of %s: %+v, %t", q, block, p.prefix(block), cluster, s, ok)
				}
			}
		}
	}
}

// A pool gives each block once, goes round, and takes back what nobody else has.
func TestPool(t *testing.T) {
	told := countsOf("10.7.0.0/22")
	before := testutil.ToFloat64(told.allocations) - testutil.ToFloat64(told.releases)
	p := pools(t, `{"clusterCIDR":"10.7.0.0/22","serviceCIDR":"10.7.1.0/25"}`)[0]
	give := func(node, want string) {
		t.Helper()
		got, ok := p.allocate(node)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%s: %s, %t, want %s", node, got, ok, want)
		}
	}
	give("a", "10.7.0.0/24")
	give("b", "10.7.2.0/24")
	if n := p.release("a"); n != 1 {
		t.Errorf("%d blocks are free", n)
	}
	give("c", "10.7.3.0/24") // not the one that was freed
	give("d", "10.7.0.0/24")
	give("e", "")
	if n := p.hold("f", span{2, 3}); n != 2 { // over b and c
		t.Errorf("%d of its blocks had an owner", n)
	}
	if n := p.release("b"); n != 0 {
		t.Errorf("%d blocks are free that another node has", n)
	}
	if n := p.release("f"); n != 1 { // c has the other
		t.Errorf("%d blocks are free", n)
	}
	if n := p.release("nobody"); n != 0 {
		t.Error("blocks of nobody")
	}
	p.hold("g", span{0, p.blocks - 1})
	p.release("g")
	give("h", "10.7.2.0/24")
	give("i", "") // never that of services
	if p.taken != p.blocks {
		t.Errorf("%d of %d are taken", p.taken, p.blocks)
	}
	for name, got := range map[string]float64{"4 blocks": testutil.ToFloat64(p.counts.most) / 4, "all taken": testutil.ToFloat64(p.counts.usage),
		"taken": testutil.ToFloat64(p.counts.allocations) - testutil.ToFloat64(p.counts.releases) - before - 3} {
		if got != 1 {
			t.Errorf("metrics: %s: %g", name, got)
		}
	}
	whole := pools(t, `{"clusterCIDR":"10.8.0.0/22","serviceCIDR":"10.0.0.0/8"}`)[0]
	if _, ok := whole.allocate("a"); ok {
		t.Error("a range of services was given")
	}
}

// A range that a node names itself is given to no other, before that node is there, while it is and after it has gone.
// That it has the range is no conflict; a second one's is, and so are services in it.
func TestReserved(t *testing.T) {
	for name, tt := range map[string]struct {
		config string
		given  []string // to the nodes that ask
		before int      // of the blocks of the node with its own range 10.9.0.0/24
	}{
		"reserved":        {`{"clusterCIDR":"10.9.0.0/22","reservedCIDRs":["10.9.0.0/24"]}`, []string{"10.9.1.0/24", "10.9.2.0/24", "10.9.3.0/24"}, 0},
		"a part of it":    {`{"clusterCIDR":"10.9.0.0/22","reservedCIDRs":["10.9.0.128/28","10.9.2.0/24"]}`, []string{"10.9.1.0/24", "10.9.3.0/24"}, 0},
		"elsewhere":       {`{"clusterCIDR":"10.9.0.0/22","reservedCIDRs":["10.8.0.0/24","fd00::/64"]}`, []string{"10.9.0.0/24", "10.9.1.0/24", "10.9.2.0/24", "10.9.3.0/24"}, 1},
		"of services too": {`{"clusterCIDR":"10.9.0.0/22","serviceCIDR":"10.9.0.0/24","reservedCIDRs":["10.9.0.0/24"]}`, []string{"10.9.1.0/24", "10.9.2.0/24", "10.9.3.0/24"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := pools(t, tt.config)[0]
			drain := func() (given []string) {
				for i := 0; ; i++ {
					r, ok := p.allocate(fmt.Sprint("node-", i))
					if !ok {
						return given
					}
					given = append(given, r.String())
				}
			}
			if got := drain(); !slices.Equal(got, tt.given) {
				t.Errorf("given %v, want %v", got, tt.given)
			}
			if n := p.hold("own", span{0, 0}); n != tt.before {
				t.Errorf("%d of its blocks had an owner, want %d", n, tt.before)
			}
			if n := p.hold("twin", span{0, 0}); n != 1 {
				t.Errorf("%d of the blocks of its twin had an owner", n)
			}
			p.release("twin")
			p.release("own")
			if got := drain(); len(got) > 0 {
				t.Errorf("given afterwards: %v", got)
			}
		})
	}
}
