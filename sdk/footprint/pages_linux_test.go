package footprint

import (
	"bufio"
	"strings"
	"testing"
)

func TestProgramRegions(t *testing.T) {
	const smaps = `00400000-01000000 r-xp 00000000 fd:00 12 /opt/pin tle
Size:              12288 kB
Anonymous:             0 kB
01000000-02000000 r--p 00c00000 fd:00 12 /opt/pin tle
Anonymous:             4 kB
02000000-02100000 rw-p 01c00000 fd:00 12 /opt/pin tle
Anonymous:           900 kB
7f0000000000-7f0000100000 r--p 00000000 fd:00 13 /lib/other
Anonymous:             0 kB
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
Anonymous:            16 kB
`
	got := programRegions(bufio.NewScanner(strings.NewReader(smaps)), "/opt/pin tle")
	want := []region{
		{start: 0x400000, end: 0x1000000, readOnly: true},
		{start: 0x1000000, end: 0x2000000, readOnly: true, written: true},
		{start: 0x2000000, end: 0x2100000, written: true},
	}
	if len(got) != len(want) {
		t.Fatalf("%d regions, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("region %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}
