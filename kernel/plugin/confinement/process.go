package confinement

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/plugin/confinement/executor"
)

// maxOpenFiles of a process.
const maxOpenFiles = 4096

// A binary that this package is linked into is an executor too.
func init() {
	if len(os.Args) == 1 && os.Args[0] == executor.Program {
		executor.Main()
	}
}

// Process is one to start.
type Process struct {
	// Privileged: it has the user and rights of this process, and no walls but that it
	// is held until Check. Path, Env and output alone are looked at.
	Privileged bool
	// Path is the executable, as the process sees it; it begins in its folder.
	Path string
	// Outside is the executable where the process has no root file system of its own;
	// empty: Path.
	Outside string
	// Opened is executed in the place of Path, where the process has no root file
	// system of its own and may not pass through the folders of Path.
	Opened *os.File
	Env    []string
	// Stdout and Stderr are its output; Inherited is its descriptor 3, or nil.
	Stdout, Stderr, Inherited *os.File
	// Hostname that it sees.
	Hostname string
	// User and group id; 0: that of this process.
	User int
	// Processes and threads that its user may have; 0: no limit.
	Processes int
	// Sockets is the folder in which it may listen. With a root file system of its own
	// it finds a folder in memory there.
	Sockets string
	// Folders that it sees; nil: it has no namespaces, because this process may make none.
	Folders *Folders
	// Readable are files and folders that it may read where it has no root file system
	// of its own, and Linux has Landlock.
	Readable []string
	// Network: it has the machine's.
	Network bool
	// LowPorts: with Network, it may listen at ports below 1024, where this process may.
	LowPorts bool
	// Waived are walls that may be missing.
	Waived Waived
	// Timeout of the start.
	Timeout time.Duration
	// Enter is called before its first instruction, to put it into its cgroup.
	Enter func(pid int) error
	// Check is called before the first instruction of the executable, with what /proc
	// knows it by.
	Check func(pid int) error

	// Without are the walls that are missing; valid after Start.
	Without []Wall
}

// Start starts the process. The calling goroutine is locked to its thread, and
// stays so while the process runs: it ends with the thread that started it.
func (p *Process) Start() (*exec.Cmd, error) {
	up := map[Wall]bool{Namespaces: p.Folders != nil && !p.Privileged, Ptrace: true, Seccomp: !p.Privileged}
	for {
		cmd, err := p.try(up)
		var m *missing
		if err == nil || !errors.As(err, &m) || !p.Waived.Has(m.wall) || !up[m.wall] {
			return cmd, err
		}
		up[m.wall] = false
		p.Without = append(p.Without, m.wall)
		slices.Sort(p.Without)
	}
}

// program is the executor beside this program, or this program, which is one too.
func program() string {
	if exe, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(exe), executor.Program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return "/proc/self/exe"
}

func (p *Process) spec(up map[Wall]bool) (*executor.Spec, error) {
	s := &executor.Spec{
		Version: executor.Version, Path: p.Path, Directory: filepath.Dir(p.Path), User: p.User,
		Capabilities: os.Geteuid() == 0, Milliseconds: p.Timeout.Milliseconds(),
		Limits: map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: maxOpenFiles, unix.RLIMIT_FSIZE: ScratchBytes},
	}
	if p.Inherited != nil {
		s.Inherited = 1
	}
	s.LowPorts = p.Network && p.LowPorts && s.Capabilities
	if p.User > 0 && p.Processes > 0 {
		s.Limits[unix.RLIMIT_NPROC] = uint64(p.Processes)
	}
	if up[Namespaces] {
		s.View, s.Hostname, s.Loopback = p.Folders.view(p.Sockets, p.Network), p.Hostname, !p.Network
	} else {
		if p.Outside != "" {
			s.Path, s.Directory = p.Outside, filepath.Dir(p.Outside)
		}
		if p.Opened != nil {
			s.Opened, s.Directory = true, "/"
		}
	}
	s.Landlock = p.landlock(s.View, s.Path)
	if up[Seccomp] {
		var err error
		if s.Filter, err = filter(p.Network); err != nil {
			return nil, Missing(Seccomp, err)
		}
	}
	return s, nil
}

// direct starts a privileged process.
func (p *Process) direct(up map[Wall]bool) (*exec.Cmd, error) {
	cmd := &exec.Cmd{
		Path: p.Path, Args: []string{p.Path}, Env: p.Env, Dir: filepath.Dir(p.Path), Stdout: p.Stdout, Stderr: p.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Ptrace: up[Ptrace]},
	}
	if p.Inherited != nil {
		cmd.ExtraFiles = []*os.File{p.Inherited}
	}
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	runtime.LockOSThread() // only the thread that started a process lets it go
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		if up[Ptrace] && unavailable(err) && p.tracing() != nil {
			return nil, Missing(Ptrace, err)
		}
		return nil, err
	}
	pid := cmd.Process.Pid
	if up[Ptrace] {
		if status, err := wait(pid); err != nil || !status.Stopped() {
			_ = cmd.Process.Release()
			return nil, fmt.Errorf("process %d ended before it began (%v, status %#x)", pid, err, int(status))
		}
	}
	err := p.Enter(pid)
	if err == nil {
		err = p.Check(pid)
	}
	return p.letGo(cmd, up[Ptrace], err)
}

// letGo lets a process go on, or ends it after an error.
func (p *Process) letGo(cmd *exec.Cmd, held bool, err error) (*exec.Cmd, error) {
	pid := cmd.Process.Pid
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

func (p *Process) try(up map[Wall]bool) (_ *exec.Cmd, err error) {
	if p.Privileged {
		return p.direct(up)
	}
	spec, err := p.spec(up)
	if err != nil {
		return nil, err
	}
	words, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	// What this process was itself started with is nobody else's.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			files = append(files, r, w)
		}
		return r, w, err
	}
	specOut, specIn, err := pipe()
	if err != nil {
		return nil, err
	}
	failureOut, failureIn, err := pipe()
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: program(), Args: []string{executor.Program}, Env: p.Env, Stdout: p.Stdout, Stderr: p.Stderr,
		ExtraFiles: []*os.File{specOut, failureIn},
		SysProcAttr: &syscall.SysProcAttr{
			// Of a session of its own: no terminal is in reach, and a signal to its group reaches all of it.
			Setsid: true, Pdeathsig: syscall.SIGKILL, Ptrace: up[Ptrace],
		},
	}
	if p.Inherited != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, p.Inherited)
	}
	if spec.Opened {
		cmd.ExtraFiles = append(cmd.ExtraFiles, p.Opened)
	}
	if up[Namespaces] {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
		if !p.Network {
			cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
		}
	}
	runtime.LockOSThread() // only the thread that started a process lets it go
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return nil, p.cause(up, err)
	}
	specOut.Close()
	failureIn.Close()
	written := make(chan struct{})
	go func() { // ends when the executor has read, or is gone
		defer close(written)
		_, _ = specIn.Write(words)
		specIn.Close()
	}()
	defer func() { <-written }()
	pid := cmd.Process.Pid
	if !up[Ptrace] {
		err = errors.Join(p.Enter(pid), failed(failureOut))
		if err == nil {
			err = p.Check(pid)
		}
		return p.letGo(cmd, false, err)
	}
	ended, err := p.hold(pid)
	if ended {
		_ = cmd.Process.Release()
		if failure := failed(failureOut); failure != nil {
			err = failure
		}
		return nil, err
	}
	if err == nil {
		err = p.Check(pid)
	}
	return p.letGo(cmd, true, err)
}

// cause finds out which wall it was that a process could not be started with.
func (p *Process) cause(up map[Wall]bool, err error) error {
	if !unavailable(err) {
		return fmt.Errorf("%s: %w", executor.Program, err)
	}
	if up[Namespaces] {
		if cause := probe(true, false); cause != nil && probe(false, false) == nil {
			return Missing(Namespaces, cause)
		}
	}
	if cause := p.tracing(); up[Ptrace] && cause != nil {
		return Missing(Ptrace, cause)
	}
	return fmt.Errorf("%s: %w", executor.Program, err)
}

// tracing is why no process can be held; nil if one can.
func (p *Process) tracing() error {
	if cause := probe(false, true); cause != nil && probe(false, false) == nil {
		return cause
	}
	return nil
}

// probe starts an executor that is given nothing to do.
func probe(namespaces, held bool) error {
	cmd := &exec.Cmd{Path: program(), Args: []string{executor.Program}, Env: []string{}, SysProcAttr: &syscall.SysProcAttr{Ptrace: held}}
	if namespaces {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return nil
}

// wait waits until a traced process stops or ends.
func wait(pid int) (syscall.WaitStatus, error) {
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			return status, err
		}
	}
}

// hold follows the process from its start to the first instruction of the
// executable; ended says that it is no more.
func (p *Process) hold(pid int) (ended bool, err error) {
	status, err := wait(pid)
	if err != nil || !status.Stopped() {
		return true, fmt.Errorf("process %d ended before it began (%v, status %#x)", pid, err, int(status))
	}
	// Should this process end meanwhile, so does that one.
	if err := syscall.PtraceSetOptions(pid, unix.PTRACE_O_EXITKILL|unix.PTRACE_O_TRACEEXEC); err != nil {
		return false, Missing(Ptrace, err)
	}
	if err := p.Enter(pid); err != nil {
		return false, err
	}
	for signal := 0; ; {
		if err := syscall.PtraceCont(pid, signal); err != nil {
			return false, fmt.Errorf("continue process %d: %w", pid, err)
		}
		if status, err = wait(pid); err != nil || !status.Stopped() {
			return true, fmt.Errorf("process %d ended before it executed %s (%v, status %#x)", pid, p.Path, err, int(status))
		}
		if status.StopSignal() == syscall.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_EXEC {
			return false, nil
		}
		switch status.StopSignal() {
		case syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGFPE:
			// A damaged program may fail after the executor is gone and before the
			// program begins. The first process of a namespace that is traced is not
			// ended by its fault: continued, it would fault for ever.
			return false, fmt.Errorf("execute %s: %s", p.Path, status.StopSignal())
		}
		signal = int(status.StopSignal())
	}
}

// failed is why the executor executed nothing; nil if it did.
func failed(from io.Reader) error {
	words, err := io.ReadAll(io.LimitReader(from, 4096))
	if err != nil || len(words) == 0 {
		return err
	}
	var f executor.Failure
	if err := json.Unmarshal(words, &f); err != nil {
		return fmt.Errorf("%s: %.200q", executor.Program, words)
	}
	cause := error(errors.New(f.Step))
	if f.Errno != 0 {
		cause = &failure{f.Step, syscall.Errno(f.Errno)}
	}
	if f.Wall != "" && f.Errno != 0 {
		return Missing(Wall(f.Wall), cause)
	}
	return cause
}

// failure is an error of the executor's.
type failure struct {
	words string
	errno syscall.Errno
}

func (f *failure) Error() string { return f.words }
func (f *failure) Unwrap() error { return f.errno }
