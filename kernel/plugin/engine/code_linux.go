package engine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// leastCode is worth a file, in bytes: of a smaller module the pages are few.
	leastCode = 1 << 20
	// codePiece is how many bytes are written at a time: the system keeps them in one
	// piece, and a fault brings all of it.
	codePiece = 64 << 10
	// roomForCode is how many times the code there has to be free on the disk.
	roomForCode = 16
)

// machineCode is what of the process is machine code of no file, in the order of addresses:
// Go itself makes none.
func machineCode() []span {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil
	}
	defer f.Close()
	var all []span
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 7f0000000000-7f0000100000 r-xp 00000000 00:00 0
		fields := strings.Fields(lines.Text())
		if len(fields) != 5 || fields[1] != "r-xp" || fields[4] != "0" {
			continue
		}
		low, high, _ := strings.Cut(fields[0], "-")
		start, err1 := strconv.ParseUint(low, 16, 64)
		end, err2 := strconv.ParseUint(high, 16, 64)
		if err1 == nil && err2 == nil && start < end {
			all = append(all, span{start: uintptr(start), end: uintptr(end)})
		}
	}
	return all
}

// errRefused is a folder whose files cannot be run: it stays so.
var errRefused = errors.New("no machine code runs from files there")

// These are of the system; tests have others.
var (
	syncFile = unix.Fdatasync
	tryToRun = runnable
)

// file is a copy of the code in a file without a name, on the disk. -1: it stays where it
// is, also when it ends before.
func (s *span) file(ends func() bool, folder string) (fd int, err error) {
	size := s.end - s.start
	if size < leastCode {
		return -1, nil
	}
	fd, err = unix.Open(folder, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, fmt.Errorf("file for machine code in %s: %w", folder, err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
			fd = -1
		}
	}()
	var disk unix.Statfs_t
	if err := unix.Fstatfs(fd, &disk); err != nil {
		return fd, fmt.Errorf("disk of %s: %w", folder, err)
	}
	if disk.Type == unix.TMPFS_MAGIC || disk.Bavail*uint64(disk.Bsize) < roomForCode*uint64(size) {
		unix.Close(fd)
		return -1, nil // memory again, or room that others need more
	}
	if err := tryToRun(fd); err != nil {
		return fd, fmt.Errorf("run machine code from a file in %s: %w", folder, refusal(err))
	}
	for at := uintptr(0); at < size; {
		if ends() {
			unix.Close(fd)
			return -1, nil
		}
		n, _, errno := unix.Syscall6(unix.SYS_PWRITE64, uintptr(fd), s.start+at, min(codePiece, size-at), at, 0, 0)
		if errno != 0 {
			return fd, fmt.Errorf("write machine code to %s: %w", folder, errno)
		}
		at += n
	}
	return fd, nil
}

// refusal marks errors that stay: a mount with noexec, a policy of the system.
func refusal(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

// runnable maps one page of a file as machine code.
func runnable(fd int) error {
	if err := unix.Ftruncate(fd, int64(os.Getpagesize())); err != nil {
		return err
	}
	page, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	return unix.Munmap(page)
}

// moveTo has the code run from a file that has the same bytes.
func (s *span) moveTo(fd int) error {
	// The same bytes at the same addresses: what runs meanwhile waits for its page.
	if _, _, errno := unix.Syscall6(unix.SYS_MMAP, s.start, s.end-s.start, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_FIXED, uintptr(fd), 0); errno != 0 {
		return fmt.Errorf("run machine code from a file: %w", refusal(errno))
	}
	s.filed = true
	return nil
}

// letGo gives the pages of code in a file back.
func (s *span) letGo() error { return advise(s, unix.MADV_DONTNEED) }

func closeFile(fd int) { unix.Close(fd) }

func advise(s *span, advice uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, s.start, s.end-s.start, advice); errno != 0 {
		return fmt.Errorf("let go of machine code: %w", errno)
	}
	return nil
}
