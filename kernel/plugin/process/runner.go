package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/node/cgroup"
	"pintle.dev/pintle/kernel/plugin/confinement"
	"pintle.dev/pintle/sdk/transport"
)

// lastWords is how long the output of a process that ended is still read: what
// it left behind may hold the pipes open.
const lastWords = 200 * time.Millisecond

// processRunner is one process, as go-plugin wants it. It ends for go-plugin when
// the process itself has ended, whoever holds its pipes.
type processRunner struct {
	name  string
	start func() (*exec.Cmd, error)
	// directory is where the process may listen, as it sees it; sockets is that
	// folder, once it runs.
	directory string
	network   bool // it has the machine's
	sockets   *confinement.Sockets
	// address is where it says that it listens.
	address struct{ network, name string }
	// without are the walls that are missing and waived.
	without []confinement.Wall
	group   *cgroup.Group // nil without cgroups
	output  [2]*os.File   // its standard output and standard error, our ends
	stderr  io.Reader
	// questions is our end of the socket that the process inherits; nil: it is not asked.
	questions net.Conn

	mu     sync.Mutex
	cmd    *exec.Cmd
	killed bool
	exited chan struct{}
	err    error // how it ended; valid after exited
	failed error // why it was not started
}

var _ runner.Runner = (*processRunner)(nil)

func (r *processRunner) Start(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		return errors.New("stopped before it was started")
	}
	begun := make(chan error, 1)
	go func() { // ends with the process
		// Which ends when the thread that started it does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd, err := r.start()
		if r.cmd = cmd; err != nil {
			r.cmd = nil
		}
		begun <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		r.sweep(cmd.Process.Pid)
		for _, f := range r.output {
			_ = f.SetReadDeadline(time.Now().Add(lastWords))
		}
		r.err = err
		close(r.exited)
	}()
	return <-begun
}

// sweep ends what the process left behind.
func (r *processRunner) sweep(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGKILL) // an empty group is no error to anyone
	if r.group != nil {
		_ = r.group.Kill()
	}
}

// Wait implements runner.Runner.
func (r *processRunner) Wait(context.Context) error {
	<-r.exited
	return r.err
}

// Kill ends the process and what it has started, at once.
func (r *processRunner) Kill(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	if r.cmd == nil {
		return nil
	}
	select {
	case <-r.exited:
	default:
		r.sweep(r.cmd.Process.Pid)
		_ = r.cmd.Process.Kill()
	}
	return nil
}

// close gives back what the process had of the machine; it has ended.
func (r *processRunner) close() error {
	for _, f := range r.output {
		if f != nil {
			f.Close()
		}
	}
	if r.questions != nil {
		r.questions.Close()
	}
	if r.sockets != nil {
		r.sockets.Close()
	}
	if r.group == nil {
		return nil
	}
	return errors.Join(r.group.Kill(), r.group.Remove())
}

// asker asks at the socket that the process inherited, if it answers frames of a
// version that is known here; otherwise the socket is closed.
func (r *processRunner) asker(version uint32) (*transport.Asker, error) {
	switch {
	case r.questions == nil:
		return nil, nil
	case version != transport.QuestionsVersion:
		return nil, r.questions.Close()
	}
	return transport.NewAsker(r.questions), nil
}

// socketPair makes a connection of this process, ours, with one that it starts.
// Nobody else can have an end: there is no name to find it by.
func socketPair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	end := os.NewFile(uintptr(fds[0]), "questions")
	defer end.Close()
	theirs = os.NewFile(uintptr(fds[1]), "questions")
	if ours, err = net.FileConn(end); err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// processFiles are what a process is started with; questions may be nil.
type processFiles struct{ stdout, stderr, questions *os.File }

func (f *processFiles) close() {
	f.stdout.Close()
	f.stderr.Close()
	if f.questions != nil {
		f.questions.Close()
	}
}

// outOfMemory reports whether a process of it was killed because it passed the
// memory limit.
func (r *processRunner) outOfMemory() bool { return r.group != nil && r.group.OutOfMemory() > 0 }

func (r *processRunner) pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return 0
	}
	return r.cmd.Process.Pid
}

// pipe reads until the process has ended or its output was closed.
type pipe struct{ io.Reader }

func (p pipe) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// Close does nothing: close does.
func (pipe) Close() error { return nil }

// Stdout implements runner.Runner.
func (r *processRunner) Stdout() io.ReadCloser { return pipe{r.output[0]} }

// Stderr implements runner.Runner.
func (r *processRunner) Stderr() io.ReadCloser { return pipe{r.stderr} }

// Name implements runner.Runner.
func (r *processRunner) Name() string { return r.name }

// ID implements runner.Runner.
func (r *processRunner) ID() string {
	if pid := r.pid(); pid > 0 {
		return strconv.Itoa(pid)
	}
	return ""
}

// Diagnose implements runner.Runner.
func (r *processRunner) Diagnose(context.Context) string { return "" }

// PluginToHost takes note of where the process listens, and refuses what is not its own.
func (r *processRunner) PluginToHost(network, address string) (string, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch network {
	case "unix":
		if filepath.Dir(filepath.Clean(address)) == filepath.Clean(r.directory) {
			r.address.network, r.address.name = network, filepath.Base(address)
			return network, address, nil
		}
	case "tcp":
		if !r.network {
			return "", "", fmt.Errorf("it says that it listens at %.100q, where the kernel cannot reach it: want a socket in the folder of PLUGIN_UNIX_SOCKET_DIR, or network: true in its manifest", address)
		}
		if host, _, err := net.SplitHostPort(address); err == nil {
			if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
				r.address.network, r.address.name = network, address
				return network, address, nil
			}
		}
	}
	return "", "", fmt.Errorf("it says that it listens at %s %.100q; want a socket in the folder of PLUGIN_UNIX_SOCKET_DIR, or loopback", network, address)
}

// dial connects to where the process said that it listens.
func (r *processRunner) dial(ctx context.Context, _ string) (net.Conn, error) {
	r.mu.Lock()
	address, sockets := r.address, r.sockets
	r.mu.Unlock()
	if address.network == "tcp" {
		return new(net.Dialer).DialContext(ctx, address.network, address.name)
	}
	if sockets == nil {
		return nil, errors.New("the process has not started")
	}
	return sockets.Dial(ctx, address.name)
}

// HostToPlugin implements runner.Runner.
func (r *processRunner) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// dialSocket connects to a socket of the process in its own folder.
func (r *processRunner) dialSocket(ctx context.Context, name string) (net.Conn, error) {
	r.mu.Lock()
	sockets := r.sockets
	r.mu.Unlock()
	if sockets == nil {
		return nil, errors.New("the process has not started")
	}
	return sockets.Dial(ctx, name)
}
