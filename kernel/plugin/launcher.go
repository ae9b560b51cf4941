package plugin

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// launcher starts processes from a thread of its own that has given up for good
// what they shall not have: they can gain no rights by what they execute, and
// have no capability even as root. The thread lives as long as the processes,
// which the operating system kills when it ends.
type launcher struct {
	mu   sync.Mutex
	work chan func()
	done chan struct{}
}

// do runs f on the thread, which is made for the first.
func (l *launcher) do(f func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.work == nil {
		l.work, l.done = make(chan func()), make(chan struct{})
		ready := make(chan error)
		go l.serve(ready, l.work, l.done)
		if err := <-ready; err != nil {
			<-l.done
			l.work = nil
			return err
		}
	}
	result := make(chan error)
	l.work <- func() { result <- f() }
	return <-result
}

// stop ends the thread, and with it what was started from it and still runs.
func (l *launcher) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.work != nil {
		close(l.work)
		<-l.done
		l.work = nil
	}
}

func (l *launcher) serve(ready chan<- error, work <-chan func(), done chan<- struct{}) {
	// Never unlocked: the thread ends with this goroutine, and no other code
	// runs on it.
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// What the process looks like from outside is its first thread; while
		// that is held, another goroutine runs elsewhere.
		elsewhere := make(chan struct{})
		go func() {
			defer close(elsewhere)
			l.serve(ready, work, done)
		}()
		<-elsewhere
		runtime.UnlockOSThread()
		return
	}
	defer close(done)
	if err := giveUpRights(); err != nil {
		ready <- err
		return
	}
	ready <- nil
	for f := range work {
		f()
	}
}

// giveUpRights takes from this thread, and from all that is executed by it or
// its children, the means to gain rights.
func giveUpRights() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	for capability := uintptr(0); ; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && capability > 0 {
			return nil // beyond the last one there is
		}
		if errors.Is(err, unix.EPERM) {
			return nil // not ours to drop; a user of its own has none either way
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
}

// startHeld starts a process and calls check while it is held before its first
// instruction: its file cannot be written any more, and it has not forked yet.
// After an error of check it is killed. make is given whether the process has
// process ids of its own, so that all it starts ends with it; where the machine
// gives none, or does not let a process be held, it goes without, and check is
// called right after the start.
func startHeld(make func(ownPIDs bool) *exec.Cmd, ownPIDs bool, check func(pid int) error) (*exec.Cmd, error) {
	runtime.LockOSThread() // only the thread that started a process lets it go
	defer runtime.UnlockOSThread()
	// What this process was itself started with is nobody else's.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	var cmd *exec.Cmd
	var err error
	held := false
	for _, try := range []struct{ own, hold bool }{{ownPIDs, true}, {false, true}, {ownPIDs, false}, {false, false}} {
		cmd, held = make(try.own), try.hold
		cmd.SysProcAttr.Ptrace = try.hold
		if err = cmd.Start(); !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.ENOSPC) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	if held {
		var status syscall.WaitStatus
		for {
			if _, err = syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		if err != nil || !status.Stopped() {
			_ = cmd.Process.Release()
			return nil, fmt.Errorf("process %d ended before it began (%w, status %#x)", pid, err, int(status))
		}
	}
	err = check(pid)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	if held {
		if detach := syscall.PtraceDetach(pid); err == nil && detach != nil {
			err = fmt.Errorf("let process %d go: %w", pid, detach)
			_ = cmd.Process.Kill()
		}
	}
	if err != nil {
		_ = cmd.Wait()
		return nil, err
	}
	return cmd, nil
}
