package dualstack

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"10.244.0.0/24":                "10.244.0.0/24",
		"10.244.0.9/24":                "10.244.0.0/24",
		"fd00::/64, 10.244.0.0/24":     "fd00::/64,10.244.0.0/24",
		"":                             "!no '/'",
		"10.244.0.0/24,":               "!no '/'",
		"10.244.0.0/24,10.245.0.0/24":  "!more than one of an IP family",
		"10.0.0.0/8,fd00::/64,fd01::/": "!",
		"1.0.0.0/8,fd00::/64,fd01::/8": "!more than one of an IP family",
		"::ffff:10.0.0.0/104":          "!in the form of IPv6",
	} {
		got, err := Ranges(text)
		if fault, bad := strings.CutPrefix(want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("%q: %v, %v; want %q", text, got, err, fault)
			}
		} else if err != nil || Join(got) != want || Join(slices.Collect(slices.Values(got))) != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "2001:db8::1,192.0.2.1": "2001:db8::1,192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"fe80::1%eth0": "!has a zone", "192.0.2.1,::ffff:192.0.2.2": "!more than one of an IP family", "name": "!unable to parse",
	} {
		got, err := Addresses(text)
		if fault, bad := strings.CutPrefix(want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("%q: %v, %v; want %q", text, got, err, fault)
			}
		} else if err != nil || Join(got) != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if got := Split(" a , ,b"); !slices.Equal(got, []string{"a", "b"}) || Split("") != nil {
		t.Errorf("%q", got)
	}
	if Family(netip.MustParseAddr("::1")) != "IPv6" || Family(netip.MustParseAddr("127.0.0.1")) != "IPv4" {
		t.Error("families")
	}
}
