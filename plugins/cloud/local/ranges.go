package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// defaultRange lies beside the default range of cluster IPs.
const defaultRange = "10.97.0.0/24"

// most is how many addresses all ranges may have.
const most = 1 << 16

// span is a range of IPv4 addresses, both ends included.
type span struct {
	first, last netip.Addr
	text        string
}

func (s span) contains(ip netip.Addr) bool {
	return ip.Is4() && s.first.Compare(ip) <= 0 && ip.Compare(s.last) <= 0
}

func (s span) size() uint32 { return number(s.last) - number(s.first) + 1 }

func number(ip netip.Addr) uint32 {
	b := ip.As4()
	return binary.BigEndian.Uint32(b[:])
}

func address(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

// parseRanges reads ranges as 192.0.2.0/28 or 192.0.2.3-192.0.2.9. Of a prefix, the first
// and the last address are left out where it has more than two: hosts take the last one
// for a broadcast.
func parseRanges(texts []string) ([]span, error) {
	if len(texts) == 0 {
		return nil, errors.New("want a range, such as " + defaultRange)
	}
	var list []span
	var sum uint64
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
		if sum += uint64(s.size()); sum > most {
			return nil, fmt.Errorf("%s: more than %d addresses in all", s.text, most)
		}
		list = append(list, s)
	}
	return list, nil
}

func parseRange(text string) (span, error) {
	wrong := fmt.Errorf("%.50q: want IPv4 addresses as 192.0.2.0/28 or 192.0.2.3-192.0.2.9", text)
	s := span{text: text}
	if from, to, is := strings.Cut(text, "-"); is {
		var err1, err2 error
		s.first, err1 = netip.ParseAddr(strings.TrimSpace(from))
		s.last, err2 = netip.ParseAddr(strings.TrimSpace(to))
		if err1 != nil || err2 != nil || !s.first.Is4() || !s.last.Is4() || s.last.Less(s.first) {
			return s, wrong
		}
	} else {
		p, err := netip.ParsePrefix(text)
		if err != nil || !p.Addr().Is4() {
			return s, wrong
		}
		p = p.Masked()
		s.first = p.Addr()
		s.last = address(number(s.first) | uint32(1<<(32-p.Bits())-1))
		if p.Bits() < 31 {
			s.first, s.last = s.first.Next(), s.last.Prev()
		}
	}
	for _, end := range []netip.Addr{s.first, s.last} {
		if end.IsUnspecified() || end.IsLoopback() || end.IsMulticast() || end.IsLinkLocalUnicast() || end.As4()[0] == 0 || end.As4()[0] >= 224 {
			return s, fmt.Errorf("%s: proxies serve no such address; want a range of ordinary addresses, such as %s", text, defaultRange)
		}
	}
	if s.contains(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || s.contains(netip.AddrFrom4([4]byte{169, 254, 1, 1})) {
		return s, fmt.Errorf("%s: it has loopback or link-local addresses in it", text)
	}
	return s, nil
}
