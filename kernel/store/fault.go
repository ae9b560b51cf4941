package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// faultFile receives what the Go runtime says when the process ends by a fault. Its room is reserved, so that it can be
// written on a full disk.
const (
	faultFile  = "FAULT"
	faultBytes = 64 << 10
)

// catchFaults has the runtime write its last words into the data directory, too, until release.
func (s *Store) catchFaults() (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.cfg.Dir, faultFile), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() // SetCrashOutput keeps a descriptor of its own
	if err := errors.Join(allocate(f, faultBytes), debug.SetCrashOutput(f, debug.CrashOptions{})); err != nil {
		return nil, err
	}
	return func() {
		if err := errors.Join(debug.SetCrashOutput(nil, debug.CrashOptions{}), os.Remove(filepath.Join(s.cfg.Dir, faultFile))); err != nil {
			s.log.Warn("taking back the file for faults failed", "error", err)
		}
	}, nil
}

// lastFault tells how the former process ended, nil when it did not end by a fault.
func lastFault(dir string) error {
	f, err := os.Open(filepath.Join(dir, faultFile))
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, faultBytes))
	if err != nil || len(b) == 0 {
		return nil
	}
	return explainFault(string(b))
}

// explainFault makes one line of the runtime's last words.
func explainFault(text string) error {
	line := func(mark string) string {
		for l := range strings.Lines(text) {
			if strings.Contains(l, mark) {
				return strings.TrimSpace(l)
			}
		}
		return ""
	}
	inStore := strings.Contains(text, "badger") || strings.Contains(text, "ristretto")
	switch bus := line("SIGBUS"); {
	case bus != "" && inStore:
		return fmt.Errorf("a page of a mapped file could not be written or read (%s): the disk was full or failed; everything acknowledged is kept", bus)
	case bus != "":
		return fmt.Errorf("a page of a mapped file could not be written or read (%s)", bus)
	case inStore && line("panic: ") != "":
		return fmt.Errorf("the database gave up (%s); everything acknowledged is kept", line("panic: "))
	}
	first, _, _ := strings.Cut(text, "\n")
	return errors.New(first)
}
