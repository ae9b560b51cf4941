package dualstack

import (
	"fmt"
	"net/netip"
	"strings"
)

// Ranges reads one range, or one of each family. The result is never empty without an error, and
// each range has its host bits zero.
func Ranges(text string) ([]netip.Prefix, error) {
	return read(text, func(one string) (netip.Prefix, netip.Addr, error) {
		p, err := netip.ParsePrefix(one)
		if err == nil && p.Addr().Is4In6() {
			err = fmt.Errorf("%q is an IPv4 range in the form of IPv6", one)
		}
		return p.Masked(), p.Addr(), err
	})
}

// Addresses reads one address, or one of each family. The result is never empty without an error.
func Addresses(text string) ([]netip.Addr, error) {
	return read(text, func(one string) (netip.Addr, netip.Addr, error) {
		a, err := netip.ParseAddr(one)
		if err == nil && a.Zone() != "" {
			err = fmt.Errorf("%q has a zone", one)
		}
		a = a.Unmap()
		return a, a, err
	})
}

func read[T any](text string, parse func(one string) (T, netip.Addr, error)) (out []T, _ error) {
	var first netip.Addr
	for one := range strings.SplitSeq(text, ",") {
		value, address, err := parse(strings.TrimSpace(one))
		switch {
		case err != nil:
			return nil, err
		case len(out) == 2, len(out) == 1 && first.Is4() == address.Is4():
			return nil, fmt.Errorf("%q has more than one of an IP family; want one, or one of each with a comma between them", text)
		}
		first = address
		out = append(out, value)
	}
	return out, nil
}

// Join writes values as Ranges and Addresses read them.
func Join[T fmt.Stringer](values []T) string { return strings.Join(Strings(values), ",") }

// Strings are values as text, each.
func Strings[T fmt.Stringer](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.String()
	}
	return out
}

// Split are the parts of a text that was read already, without spaces; none of an empty one.
func Split(text string) (out []string) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return out
}

// Family is how messages call the family of an address.
func Family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
