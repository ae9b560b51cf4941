package footprint

import (
	"bufio"
	"os"
	"slices"
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

// At rest a fault maps a small piece of the program's file, during work huge pages may come.
func TestProgramPages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil {
		t.Skip("this system has no huge pages: ", err)
	}
	flags := func() (all []string) {
		exe, err := os.Readlink("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile("/proc/self/smaps")
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for line := range strings.Lines(string(raw)) {
			fields := strings.Fields(line)
			if !strings.HasSuffix(fields[0], ":") {
				code = strings.HasSuffix(strings.TrimSpace(line), exe) && fields[1] == "r-xp"
			} else if code && fields[0] == "VmFlags:" {
				all = append(all, fields[1:]...)
			}
		}
		if all == nil {
			t.Fatalf("no code of %s in smaps", exe)
		}
		return all
	}
	mappings := func(at []string) (n int) {
		for _, flag := range at {
			if flag == "ex" {
				n++
			}
		}
		return n
	}
	for range 2 {
		dropProgramPages()
		if at := flags(); !slices.Contains(at, "nh") {
			t.Errorf("at rest the code's flags are %v, want nh", at)
		} else if n := mappings(at); n < 8 {
			t.Errorf("at rest the code is %d mappings", n)
		}
		dropProgramPages() // again during the same rest
		restoreProgramPages()
		if at := flags(); !slices.Contains(at, "hg") || slices.Contains(at, "nh") {
			t.Errorf("at work the code's flags are %v, want hg and no nh", at)
		} else if n := mappings(at); n > 2 {
			t.Errorf("at work the code is %d mappings", n)
		}
	}
}
