package containerd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// killOrphanShims ends the shims that the daemon has forgotten: one whose start is
// given up, since the kernel was killed while it waited for a sandbox, goes on without
// the folder in which the daemon keeps it, and without a container. Its folder is there
// before a shim, and gone after it.
func killOrphanShims(l layout) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("look for shims: %w", err)
	}
	var errs []error
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		id := shimOf(l, args)
		if id == "" {
			continue
		}
		if _, err := os.Lstat(filepath.Join(l.tasks, id)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("end shim of sandbox %s (pid %d): %w", id, pid, err))
		}
	}
	return errors.Join(errs...)
}

// shimOf is the sandbox for which a command line starts a shim of this daemon; empty
// for any other process.
func shimOf(l layout, commandLine []byte) string {
	args := strings.Split(strings.TrimSuffix(string(commandLine), "\x00"), "\x00")
	if args[0] != filepath.Join(l.tools, "containerd-shim-runc-v2") || option(args, "-address") != l.socket || slices.Contains(args, "start") || slices.Contains(args, "delete") {
		return ""
	}
	return option(args, "-id")
}
