package footprint

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// region is one mapping of the program file.
type region struct {
	start, end uintptr
	readOnly   bool
	written    bool // pages of its own: relocations, breakpoints
}

// dropProgramPages unmaps the pages of the program file that start-up has
// touched: code and tables that are needed once. They stay in the system's
// cache while there is room, and come back from it one fault at a time, in small
// pages: where the cache has huge ones, a fault would bring two megabytes.
func dropProgramPages() {
	adviseProgram(unix.MADV_NOHUGEPAGE)
}

// restoreProgramPages lets work have huge pages again: it runs through much of the
// program, and they take less room in the processor's tables.
func restoreProgramPages() {
	adviseProgram(unix.MADV_HUGEPAGE)
}

// adviseProgram sets which pages the program's file may have from now on. Those that
// are mapped are of the kind before, so they go.
func adviseProgram(pages uintptr) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	for _, r := range programRegions(bufio.NewScanner(f), exe) {
		if r.readOnly && !r.written {
			// What fails keeps its pages, which is no fault: a system may have no huge ones.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, pages)
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, unix.MADV_DONTNEED)
		}
	}
}

// programRegions reads /proc/PID/smaps.
func programRegions(lines *bufio.Scanner, exe string) []region {
	var all []region
	var current *region
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		if r, ok := header(fields, exe); ok {
			current = nil
			if r != nil {
				all = append(all, *r)
				current = &all[len(all)-1]
			}
			continue
		}
		if current != nil && fields[0] == "Anonymous:" && fields[1] != "0" {
			current.written = true
		}
	}
	return all
}

// header tells the first line of a mapping, and returns its region when it is
// one of the program file.
func header(fields []string, exe string) (*region, bool) {
	low, high, ok := strings.Cut(fields[0], "-")
	if !ok || strings.HasSuffix(fields[0], ":") {
		return nil, false
	}
	start, err1 := strconv.ParseUint(low, 16, 64)
	end, err2 := strconv.ParseUint(high, 16, 64)
	if err1 != nil || err2 != nil {
		return nil, false
	}
	if len(fields) < 6 || strings.Join(fields[5:], " ") != exe {
		return nil, true
	}
	return &region{start: uintptr(start), end: uintptr(end), readOnly: strings.HasPrefix(fields[1], "r-") && strings.HasSuffix(fields[1], "p")}, true
}
