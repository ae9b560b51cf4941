package conntrack

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
)

// TestReadUsage: the kernel says how many flows there are, and how many there may be.
func TestReadUsage(t *testing.T) {
	alone(t)
	before, err := ReadUsage()
	if err != nil {
		t.Fatal(err)
	}
	track(t, netip.MustParseAddrPort("10.2.0.1:4000"), netip.MustParseAddrPort("10.96.0.10:53"))
	after, err := ReadUsage()
	if err != nil || before.Entries != 0 || after.Entries != 1 || after.Limit == 0 || after.Dropped != 0 {
		t.Errorf("before %+v, after a flow %+v, %v", before, after, err)
	}
}

// TestWatch: what was dropped is said in each period, its end once, and nothing else.
func TestWatch(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	var now Usage
	var fails error
	w := Watch{read: func() (Usage, error) { return now, fails }}
	for _, step := range []struct {
		name    string
		dropped uint64
		fails   error
		want    string // ""; nothing is said
	}{
		{"at first", 2, nil, ""},
		{"full", 7, nil, "dropped=5 entries=9 limit=10"},
		{"full still", 12, nil, "dropped=5 "},
		{"not to be read", 0, errors.New("no"), ""},
		{"room", 12, nil, "has room again"},
		{"room still", 12, nil, ""},
		{"the count began anew", 3, nil, ""},
		{"full again", 5, nil, "dropped=2 "},
	} {
		said.Reset()
		now, fails = Usage{Entries: 9, Limit: 10, Dropped: step.dropped}, step.fails
		w.Look(log)
		if got := said.String(); (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%s: said %q, want %q", step.name, got, step.want)
		}
	}
}
