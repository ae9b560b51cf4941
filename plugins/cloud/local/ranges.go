package local

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// defaultRanges lie beside the ranges of cluster IPs that documents name.
var defaultRanges = []string{"10.97.0.0/24", "fd00:97::/120"}

// most is how many addresses all ranges of a family may have.
const most = 1 << 16

// span is a range of addresses of one family, both ends included.
type span struct {
	first, last netip.Addr
	text        string
}

func (s span) contains(ip netip.Addr) bool {
	return ip.BitLen() == s.first.BitLen() && s.first.Compare(ip) <= 0 && ip.Compare(s.last) <= 0
}

// size is the number of addresses; of more than most it is one more than that.
func (s span) size() int {
	a, b := s.first.As16(), s.last.As16()
	var n uint64
	for i := range a {
		d := uint64(b[i]) - uint64(a[i]) // as a digit, which borrows where it is below zero
		if n = n<<8 + d; n > 1<<40 {
			return most + 1
		}
	}
	return int(min(n+1, most+1))
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

// parseRanges reads ranges as 192.0.2.0/28, 192.0.2.3-192.0.2.9 or 2001:db8::/120. Of a prefix
// with more than two addresses the first one is left out, which is all routers' in IPv6, and
// in IPv4 the last one, which hosts take for a broadcast.
func parseRanges(texts []string) ([]span, error) {
	if len(texts) == 0 {
		return nil, errors.New("want a range, such as " + defaultRanges[0])
	}
	var list []span
	sum := map[int]int{} // by the bits of a family's addresses
	for _, text := range texts {
		s, err := parseRange(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		for _, other := range list {
			if s.contains(other.first) || other.contains(s.first) {
				return nil, fmt.Errorf("%s and %s overlap", other.text, s.text)
			}
		}
		if sum[s.first.BitLen()] += s.size(); sum[s.first.BitLen()] > most {
			return nil, fmt.Errorf("%s: more than %d addresses in all; of IPv6 that is one /112", s.text, most)
		}
		list = append(list, s)
	}
	return list, nil
}

func parseRange(text string) (span, error) {
	wrong := fmt.Errorf("%.100q: want addresses as 192.0.2.0/28, 192.0.2.3-192.0.2.9 or 2001:db8::/120", text)
	s := span{text: text}
	if from, to, is := strings.Cut(text, "-"); is {
		var err1, err2 error
		s.first, err1 = netip.ParseAddr(strings.TrimSpace(from))
		s.last, err2 = netip.ParseAddr(strings.TrimSpace(to))
		if err1 != nil || err2 != nil || s.first.BitLen() != s.last.BitLen() || s.last.Less(s.first) {
			return s, wrong
		}
	} else {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return s, wrong
		}
		p = p.Masked()
		s.first, s.last = p.Addr(), lastOf(p)
		if p.Bits() < s.first.BitLen()-1 {
			if s.first = s.first.Next(); s.last.Is4() {
				s.last = s.last.Prev()
			}
		}
	}
	if s.first.Zone() != "" || s.last.Zone() != "" || s.first.Is4In6() || s.last.Is4In6() {
		return s, wrong
	}
	for _, p := range unserved {
		if p.Contains(s.first) || p.Contains(s.last) || s.contains(p.Addr()) {
			return s, fmt.Errorf("%s: proxies serve no address of %s; want a range of ordinary addresses, such as %s", text, p, strings.Join(defaultRanges, " or "))
		}
	}
	return s, nil
}

// unserved are no ordinary addresses: this network, loopback, link-local, groups, reserved,
// and those that only write an address of IPv4.
var unserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("::ffff:0:0/96"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}
