package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	// execTimeout bounds how long a process may be within execve(2).
	execTimeout = 10 * time.Second
	// toldLines and toldBytes bound what a fault repeats of the log's end.
	toldLines, toldBytes = 3, 4096
)

// child is a daemon that this process started.
type child struct {
	pid   int
	from  int64         // size of the log before
	ended chan struct{} // closed when it has ended
	state *os.ProcessState
}

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

// commandLine reads a process's arguments. Within execve(2) the kernel shows none until it
// has read the beginning of the program, which takes more than a moment on a slow disk. So an
// empty answer of a living process is asked again. Threads of the kernel have no program.
func commandLine(pid int) ([]byte, error) {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || len(args) > 0 || gone(pid) || time.Since(begun) > execTimeout {
			return args, err
		}
		if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
			return nil, nil
		}
	}
}

// start launches the daemon apart from this process, so that it outlives it.
func start(l layout) (*child, error) {
	if info, err := os.Stat(l.logFile); err == nil && info.Size() > maxLog {
		if err := os.Rename(l.logFile, l.logFile+".1"); err != nil {
			return nil, fmt.Errorf("start containerd: rotate log: %w", err)
		}
	}
	log, err := os.OpenFile(l.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	cmd := exec.Command(filepath.Join(l.tools, "containerd"), "--config", l.config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + l.tools + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start containerd: %w; `make build` puts it there", err)
	}
	c := &child{pid: cmd.Process.Pid, from: info.Size(), ended: make(chan struct{})}
	go func() { // reaps it; ends with the daemon or this process
		defer close(c.ended)
		_ = cmd.Wait()
		c.state = cmd.ProcessState
	}()
	if err := writeFile(l.pidFile, []byte(strconv.Itoa(c.pid))); err != nil {
		_ = syscall.Kill(c.pid, syscall.SIGKILL)
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	return c, nil
}

// fault says how a daemon ended; nil: it runs. c is nil for one that another process started.
func (c *child) fault(l layout) error {
	if c == nil {
		if running(l) != 0 {
			return nil
		}
		return fmt.Errorf("containerd has ended; %s", lastLines(l.logFile, 0))
	}
	select {
	case <-c.ended:
		return fmt.Errorf("containerd ended at once (%s); %s", c.state, lastLines(l.logFile, c.from))
	default:
		return nil
	}
}

// await waits until the daemon answers over CRI: it opens its socket before,
// and first looks at the containers that it had. It returns the version. c is nil for a daemon
// that another process started.
func await(ctx context.Context, l layout, c *child) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if dialable(ctx, l.socket) {
			if v, err := version(ctx, l.socket); status.Code(errors.Unwrap(err)) != codes.Unavailable {
				return v, err
			}
		}
		if err := c.fault(l); err != nil {
			return "", err
		}
		select {
		case <-ctx.Done():
			from := int64(0)
			if c != nil {
				from = c.from
			}
			return "", fmt.Errorf("containerd did not answer at %s: %w; %s", l.socket, ctx.Err(), lastLines(l.logFile, from))
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

// lastLines says what a log ends with, of what stands behind the offset.
func lastLines(file string, from int64) string {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Sprintf("its log cannot be read: %v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Sprintf("its log cannot be read: %v", err)
	}
	size := min(max(info.Size()-from, 0), toldBytes)
	tail := make([]byte, size)
	if _, err := f.ReadAt(tail, info.Size()-size); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Sprintf("its log cannot be read: %v", err)
	}
	text := strings.TrimSpace(string(tail))
	if text == "" {
		return "it wrote nothing to its log " + file
	}
	lines := strings.Split(text, "\n")
	return fmt.Sprintf("its log %s ends with: %s", file, strings.Join(lines[max(0, len(lines)-toldLines):], " | "))
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
