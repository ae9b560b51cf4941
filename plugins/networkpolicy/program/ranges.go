package program

import (
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	netutils "k8s.io/utils/net"
)

// addressRange is a range of addresses of one family, both ends included.
type addressRange struct{ first, last netip.Addr }

// prefixRange parses a CIDR as the API server does, which takes leading zeros.
func prefixRange(cidr string) (addressRange, bool) {
	_, parsed, err := netutils.ParseCIDRSloppy(cidr)
	if err != nil {
		return addressRange{}, false
	}
	first, ok := netip.AddrFromSlice(parsed.IP)
	if !ok {
		return addressRange{}, false
	}
	last := slices.Clone(parsed.IP)
	for i := range last {
		last[i] |= ^parsed.Mask[i]
	}
	end, _ := netip.AddrFromSlice(last)
	if first.Is4In6() && end.Is4In6() {
		first, end = first.Unmap(), end.Unmap()
	}
	return addressRange{first, end}, true
}

// blockRanges is what an ipBlock leaves of its range when its exceptions are taken out. The
// exceptions are put in order first: there may be tens of thousands.
func blockRanges(b *networkingv1.IPBlock) []addressRange {
	whole, ok := prefixRange(b.CIDR)
	if !ok {
		return nil // the API refuses it; it allows no address
	}
	excepts := make([]addressRange, 0, len(b.Except))
	for _, text := range b.Except {
		except, ok := prefixRange(text)
		if !ok {
			return nil // what is not to be allowed is not known
		}
		if familyOf(except.first) == familyOf(whole.first) {
			excepts = append(excepts, except)
		}
	}
	var left []addressRange
	from := whole.first // the first address that is not decided yet
	for _, e := range merged(excepts) {
		if e.last.Less(from) {
			continue
		}
		if whole.last.Less(e.first) {
			break
		}
		if from.Less(e.first) {
			left = append(left, addressRange{from, e.first.Prev()})
		}
		if from = e.last.Next(); !from.IsValid() || whole.last.Less(from) {
			return left
		}
	}
	return append(left, addressRange{from, whole.last})
}

// merged are the same addresses in ranges that neither meet nor touch, in order.
func merged(list []addressRange) []addressRange {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b addressRange) int { return a.first.Compare(b.first) })
	var out []addressRange
	for _, r := range list {
		if n := len(out); n > 0 && familyOf(out[n-1].last) == familyOf(r.first) {
			// The address behind the last one of all is none.
			if next := out[n-1].last.Next(); !next.IsValid() || !next.Less(r.first) {
				if out[n-1].last.Less(r.last) {
					out[n-1].last = r.last
				}
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

func rangesText(list []addressRange) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(r.first.String() + "-" + r.last.String() + " ")
	}
	return b.String()
}
