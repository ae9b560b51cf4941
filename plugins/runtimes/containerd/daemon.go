package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// startTimeout bounds the wait for the daemon's socket.
	startTimeout = 30 * time.Second
	// stopTimeout is how long the daemon may take to end before it is killed.
	stopTimeout = 10 * time.Second
	// maxLog is the size at which the daemon's log starts anew, in bytes.
	maxLog = 16 << 20
)

// running returns the pid of the bundled daemon of this layout, 0 for none.
func running(l layout) int {
	text, err := os.ReadFile(l.pidFile)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0
	}
	// A pid may have been given to somebody else since: the command line has
	// to name our configuration.
	args, err := commandLine(pid)
	if err != nil || !bytes.Contains(args, []byte(l.config)) {
		return 0
	}
	return pid
}

// tasks tells that containers of the daemon have not been removed.
func tasks(l layout) bool {
	entries, err := os.ReadDir(l.tasks)
	return err == nil && len(entries) > 0
}

// commandLine reads a process's arguments. For a moment within execve(2) the
// kernel shows none, so an empty answer of a living process is asked again.
func commandLine(pid int) ([]byte, error) {
	for range 100 {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || len(args) > 0 || gone(pid) {
			return args, err
		}
		time.Sleep(time.Millisecond)
	}
	return nil, nil
}

// start launches the daemon apart from this process, so that it outlives it.
func start(l layout) error {
	if info, err := os.Stat(l.logFile); err == nil && info.Size() > maxLog {
		if err := os.Rename(l.logFile, l.logFile+".1"); err != nil {
			return fmt.Errorf("start containerd: rotate log: %w", err)
		}
	}
	log, err := os.OpenFile(l.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(l.tools, "containerd"), "--config", l.config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + l.tools + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start containerd: %w; `make build` puts it there", err)
	}
	pid := cmd.Process.Pid
	go func() { _ = cmd.Wait() }() // reaps it; ends with the daemon or this process
	if err := writeFile(l.pidFile, []byte(strconv.Itoa(pid))); err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		return fmt.Errorf("start containerd: %w", err)
	}
	return nil
}

// await waits until the daemon answers over CRI: it opens its socket before,
// and first looks at the containers that it had. It returns the version.
func await(ctx context.Context, l layout) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if dialable(ctx, l.socket) {
			if v, err := version(ctx, l.socket); status.Code(errors.Unwrap(err)) != codes.Unavailable {
				return v, err
			}
		}
		if running(l) == 0 {
			return "", fmt.Errorf("containerd ended at once; its log %s ends with: %s", l.logFile, lastLine(l.logFile))
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("containerd did not open %s: %w; its log %s ends with: %s", l.socket, ctx.Err(), l.logFile, lastLine(l.logFile))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func dialable(ctx context.Context, socket string) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func lastLine(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return "(no log)"
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "(no log)"
	}
	tail := make([]byte, min(info.Size(), 4096))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
		return "(no log)"
	}
	lines := strings.Split(strings.TrimSpace(string(tail)), "\n")
	return lines[len(lines)-1]
}

// terminate ends the daemon, by force when it does not end by itself.
func terminate(ctx context.Context, l layout) error {
	pid := running(l)
	if pid == 0 {
		return removeIfThere(l.pidFile)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop containerd (pid %d): %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for !gone(pid) {
		select {
		case <-ctx.Done():
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill containerd (pid %d): %w", pid, err)
			}
			return removeIfThere(l.pidFile)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return removeIfThere(l.pidFile)
}

// gone reports whether a process has ended; one that only waits to be reaped
// counts as ended.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return bytes.HasPrefix(after, []byte(" Z"))
}

func removeIfThere(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
