package ipvs

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestConfig: the defaults are kube-proxy's, and what cannot be is refused by its key.
func TestConfig(t *testing.T) {
	c, err := parseConfig(nil)
	if err != nil || c.Scheduler != "rr" || c.StrictARP || c.MasqueradeAll || c.mark != 1<<14 || c.sync != 30*time.Second || c.least != 0 || c.timeouts != (timeouts{}) ||
		*c.HealthzBindAddress != "0.0.0.0:10256" || !c.everyAddress() || c.excludes(netip.MustParseAddr("192.0.2.1")) {
		t.Errorf("defaults %+v, %v", c, err)
	}
	c, err = parseConfig([]byte(`{"scheduler":"lblcr","excludeCIDRs":["192.0.2.7/24","2001:db8::/32"],"tcpTimeout":"900s","tcpFinTimeout":"0s","nodePortAddresses":["primary"]}`))
	if err != nil || c.Scheduler != "lblcr" || !c.excludes(netip.MustParseAddr("192.0.2.1")) || !c.excludes(netip.MustParseAddr("2001:db8::1")) ||
		c.excludes(netip.MustParseAddr("192.0.3.1")) || c.timeouts.tcp != 15*time.Minute || c.everyAddress() || c.nodePorts != nil {
		t.Errorf("got %+v, %v", c, err)
	}
	for text, want := range map[string]string{
		`{"schedular":"rr"}`:                             "schedular",
		`{"scheduler":"rr; reboot"}`:                     "want one of rr, wrr",
		`{"scheduler":"../x"}`:                           "scheduler",
		`{"excludeCIDRs":["192.0.2.1"]}`:                 "excludeCIDRs",
		`{"tcpTimeout":"-1s"}`:                           "tcpTimeout",
		`{"udpTimeout":"1000000h"}`:                      "udpTimeout",
		`{"tcpFinTimeout":"soon"}`:                       "tcpFinTimeout",
		`{"syncPeriod":"1ms"}`:                           "syncPeriod",
		`{"minSyncPeriod":"31s"}`:                        "minSyncPeriod",
		`{"masqueradeBit":32}`:                           "masqueradeBit",
		`{"nodePortAddresses":["primary","10.0.0.0/8"]}`: "stands alone",
		`{"nodePortAddresses":["eth0"]}`:                 "nodePortAddresses",
		`{"healthzBindAddress":"x"}`:                     "healthzBindAddress",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "proxy ipvs") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestBefore59 reads releases of kernels.
func TestBefore59(t *testing.T) {
	for release, want := range map[string]bool{"4.19.0-27-amd64": true, "5.8.0": true, "5.9.1": false, "6.1.0-56-amd64": false, "x": false} {
		if got := before59(release); got != want {
			t.Errorf("%s: %t", release, got)
		}
	}
}

// TestMarks: each front has one of its own, the same in each run, without the bits that others
// act by; others' marks are none of ours.
func TestMarks(t *testing.T) {
	for _, masquerade := range []uint32{1 << 14, 1 << 3, 1 << 30, 1 << 31} {
		m, again := newMarker(masquerade), newMarker(masquerade)
		seen := map[uint32]bool{}
		for i := range 20000 {
			f := front{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), 6, 80}
			mark := m.mark(f)
			if seen[mark] || mark == 0 || mark&(masquerade|1<<14|1<<15) != 0 || !m.ours(mark) || m.mark(f) != mark || again.mark(f) != mark {
				t.Fatalf("front %d of bit %#x has mark %#x", i, masquerade, mark)
			}
			seen[mark] = true
		}
		for _, other := range []uint32{0, 1, masquerade, 0x8000, 0xffffffff} {
			if m.ours(other) {
				t.Errorf("bit %#x: the mark %#x is ours", masquerade, other)
			}
		}
		m.keep(func(front) bool { return false })
		if len(m.of)+len(m.taken) > 0 {
			t.Error("marks are kept")
		}
	}
}
