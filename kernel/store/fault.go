package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// FaultFile is the file, in a data directory, that receives what the Go runtime says when the process ends by a fault. Its
// room is reserved, so that it can be written on a full disk. A start that finds words in it keeps them as formerFault.
const (
	FaultFile   = "FAULT"
	formerFault = "FAULT.former"
	faultBytes  = 64 << 10
)

// catchFaults has the runtime write its last words into the data directory, too, until release.
func (s *Store) catchFaults() (release func(), err error) {
	path := filepath.Join(s.cfg.Dir, FaultFile)
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		if err := os.Rename(path, filepath.Join(s.cfg.Dir, formerFault)); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() // SetCrashOutput keeps a descriptor of its own
	if err := errors.Join(allocate(f, faultBytes), debug.SetCrashOutput(f, debug.CrashOptions{})); err != nil {
		return nil, err
	}
	return func() {
		if err := errors.Join(debug.SetCrashOutput(nil, debug.CrashOptions{}), os.Remove(path)); err != nil {
			s.log.Warn("taking back the file for faults failed", "error", err)
		}
	}, nil
}

// lastFault tells how the former process ended, nil when it did not end by a fault.
func lastFault(dir string) error {
	f, err := os.Open(filepath.Join(dir, FaultFile))
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, faultBytes))
	if err != nil || len(b) == 0 {
		return nil
	}
	cause, kept := explainFault(string(b))
	if kept {
		return fmt.Errorf("%s; %s", cause, everythingKept)
	}
	return errors.New(cause)
}

const everythingKept = "everything acknowledged is kept"

// Fault makes one line of what the runtime said at the end of a process that had the store in dir: the cause and, where
// it is the store's, the room on its file system and what to do.
func Fault(dir, trace string) error {
	cause, ours := explainFault(trace)
	if !ours {
		return errors.New(cause)
	}
	advice := "look at the disk and at the system's log, and start again"
	free, readOnly, err := diskUsage(dir)
	switch {
	case err != nil:
		return fmt.Errorf("data directory %s: %s; %w; %s; %s", dir, cause, err, advice, everythingKept)
	case readOnly:
		return fmt.Errorf("data directory %s: %s; its file system is read-only; %s; %s", dir, cause, advice, everythingKept)
	case free < fullBytes:
		advice = "free some or move it, and start again"
	}
	return fmt.Errorf("data directory %s: %s; its file system has %d KiB left; %s; %s", dir, cause, free>>10, advice, everythingKept)
}

// fullBytes left on a file system count as none: no table of a compaction fits.
const fullBytes = 16 << 20

// frame is a function of the database on a goroutine's stack, with its arguments.
var frame = regexp.MustCompile(`(?m)^github\.com/dgraph-io/(?:badger|ristretto)/v\d+(?:/\w+)*\.(\S+?)\((?:0x|\{|\.\.\.|\))`)

// explainFault makes one line of the runtime's last words. ours: it is a fault of the database, on disk.
func explainFault(text string) (cause string, ours bool) {
	line := func(mark string) string {
		for l := range strings.Lines(text) {
			if strings.Contains(l, mark) {
				return strings.TrimSpace(l)
			}
		}
		return ""
	}
	in := ""
	if m := frame.FindStringSubmatch(failing(text)); m != nil {
		in = " in " + m[1]
	}
	bus, panicked := line("SIGBUS"), line("panic: ")
	switch {
	case bus != "" && in != "":
		return fmt.Sprintf("a page of a mapped file could not be written or read (%s%s): the disk was full or failed", bus, in), true
	case bus != "":
		return fmt.Sprintf("a page of a mapped file could not be written or read (%s)", bus), false
	case in != "" && panicked != "":
		return fmt.Sprintf("the database gave up (%s%s)", panicked, in), true
	}
	first, _, _ := strings.Cut(text, "\n")
	return first, false
}

// failing is the stack of the goroutine that failed: the first one.
func failing(text string) string {
	_, text, _ = strings.Cut(text, "\ngoroutine ")
	text, _, _ = strings.Cut(text, "\n\n")
	return text
}
