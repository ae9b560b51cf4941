package footprint

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// region is one mapping of the program file.
type region struct {
	start, end uintptr
	readOnly   bool
	written    bool // pages of its own: relocations, breakpoints
}

const (
	// piece is how much of the program one fault brings at most while the program rests, in
	// bytes: Linux maps no more of a file than a mapping has, however large the pieces are
	// that its cache holds the file in.
	piece = 32 << 10
	// mostPieces bounds the mappings of a process, of which the system allows 65,530.
	mostPieces = 8192
)

// dropProgramPages unmaps the pages of the program file that start-up has
// touched: code and tables that are needed once. They stay in the system's
// cache while there is room, and come back from it one fault at a time, in small
// pieces: where the cache has large ones, a fault would bring megabytes.
func dropProgramPages() {
	for _, r := range program() {
		r.advise(unix.MADV_NOHUGEPAGE)
		size := max(piece, (r.end-r.start)/mostPieces&^(piece-1)+piece)
		for at := r.start; at < r.end; at += 2 * size {
			// Neighbours that differ in anything are mappings apart. What differs is
			// whether a dump would have them, which of a program's file it never has.
			region{start: at, end: min(at+size, r.end)}.advise(unix.MADV_DONTDUMP)
		}
		r.advise(unix.MADV_DONTNEED)
	}
}

// restoreProgramPages lets work have large pieces and huge pages again: it runs through
// much of the program, and they take less room in the processor's tables.
func restoreProgramPages() {
	for _, r := range program() {
		r.advise(unix.MADV_DODUMP)
		r.advise(unix.MADV_HUGEPAGE)
		r.advise(unix.MADV_DONTNEED) // pages that are mapped stay of the kind before
	}
}

// advise tells the system about a region. What fails keeps its pages, which is no fault: a
// system may have no huge ones.
func (r region) advise(advice uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, advice)
}

// program is what of the process is its program's file as it is on the disk. It does not
// change; the process knows it before it is taken into pieces.
var program = sync.OnceValue(func() (clean []region) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil
	}
	defer f.Close()
	for _, r := range programRegions(bufio.NewScanner(f), exe) {
		if r.readOnly && !r.written {
			clean = append(clean, r)
		}
	}
	return clean
})

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
