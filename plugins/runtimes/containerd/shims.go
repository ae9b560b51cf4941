package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killOrphanShims ends the shims that the daemon has forgotten: one whose start is
// given up, since the kernel was killed while it waited for a sandbox, goes on without
// the folder in which the daemon keeps it, and without a container. Its folder is there
// before a shim, and gone after it.
func killOrphanShims(l layout) error {
	shims, err := shimsOf(l)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range shims {
		if _, err := os.Lstat(filepath.Join(l.tasks, s.id)); s.starting || !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		errs = append(errs, s.kill(s.pid))
	}
	return errors.Join(errs...)
}

// endShims ends every shim of this daemon, which has ended, with the processes that it started, until there is none: the
// daemon may have ended while a sandbox was being made, which its list does not have yet, and what starts that shim
// outlives the daemon.
func endShims(ctx context.Context, l layout) error {
	for {
		shims, err := shimsOf(l)
		if err != nil || len(shims) == 0 {
			return err
		}
		var errs []error
		for _, s := range shims {
			for _, child := range children(s.pid) {
				errs = append(errs, s.kill(child))
			}
			errs = append(errs, s.kill(s.pid))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end %d shims: %w", len(shims), ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// shim is a process that keeps a sandbox, or starts the one that will.
type shim struct {
	pid      int
	id       string
	starting bool
}

func (s shim) kill(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end pid %d of the shim of sandbox %s (pid %d): %w", pid, s.id, s.pid, err)
	}
	return nil
}

// shimsOf lists the shims of this daemon.
func shimsOf(l layout) (shims []shim, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for shims: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if id, starting := shimOf(l, args); id != "" {
			shims = append(shims, shim{pid, id, starting})
		}
	}
	return shims, nil
}

// children lists what a process has started and is still its own.
func children(pid int) (pids []int) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		for _, field := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// shimOf is the sandbox for which a command line starts a shim of this daemon; empty
// for any other process. starting says that it starts another.
func shimOf(l layout, commandLine []byte) (id string, starting bool) {
	args := strings.Split(strings.TrimSuffix(string(commandLine), "\x00"), "\x00")
	if args[0] != filepath.Join(l.tools, "containerd-shim-runc-v2") || option(args, "-address") != l.socket || slices.Contains(args, "delete") {
		return "", false
	}
	return option(args, "-id"), slices.Contains(args, "start")
}
