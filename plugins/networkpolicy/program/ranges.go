package program

import (
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	netutils "k8s.io/utils/net"
)

var labelsEverything = labels.Everything()

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

// blockRanges is what an ipBlock leaves of its range when its exceptions are taken out.
func blockRanges(b *networkingv1.IPBlock) []addressRange {
	whole, ok := prefixRange(b.CIDR)
	if !ok {
		return nil // the API refuses it; it allows nobody
	}
	left := []addressRange{whole}
	for _, text := range b.Except {
		except, ok := prefixRange(text)
		if !ok {
			return nil // what is not to be allowed is not known
		}
		var next []addressRange
		for _, r := range left {
			next = append(next, r.without(except)...)
		}
		left = next
	}
	return left
}

// without is what is left of a range.
func (r addressRange) without(o addressRange) []addressRange {
	if familyOf(r.first) != familyOf(o.first) || o.last.Less(r.first) || r.last.Less(o.first) {
		return []addressRange{r}
	}
	var left []addressRange
	if r.first.Less(o.first) {
		left = append(left, addressRange{r.first, o.first.Prev()})
	}
	if o.last.Less(r.last) {
		left = append(left, addressRange{o.last.Next(), r.last})
	}
	return left
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

func holds(list []addressRange, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(r addressRange) bool {
		return familyOf(r.first) == familyOf(a) && !a.Less(r.first) && !r.last.Less(a)
	})
}

func rangesText(list []addressRange) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(r.first.String() + "-" + r.last.String() + " ")
	}
	return b.String()
}
