package confinement

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Sockets are those that a process listens to, in a folder that belongs to it: what
// lies there is what it put there, links too.
type Sockets struct {
	folder *os.File
	user   int
	// pids is the namespace of its process ids; empty: it has none of its own.
	pids string
}

// Listening opens the folder of the process that was started.
func (p *Process) Listening(pid int) (*Sockets, error) {
	s := &Sockets{user: p.User}
	if p.User == 0 {
		s.user = os.Geteuid()
	}
	path := p.Sockets
	if p.Folders != nil && !slices.Contains(p.Without, Namespaces) {
		// There is no path to it outside of the root of the process.
		path = procOf(pid) + "/root" + p.Sockets
		var err error
		if s.pids, err = os.Readlink(procOf(pid) + "/ns/pid"); err != nil {
			return nil, err
		}
	}
	descriptor, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open folder %s of process %d: %w", p.Sockets, pid, err)
	}
	s.folder = os.NewFile(uintptr(descriptor), p.Sockets)
	return s, nil
}

func procOf(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// Close closes the folder, not connections.
func (s *Sockets) Close() error { return s.folder.Close() }

// Dial connects to the socket of a name in the folder, if it is one, and no link to
// one, and the process itself, or one that it started, listens to it.
func (s *Sockets) Dial(ctx context.Context, name string) (net.Conn, error) {
	if name != filepath.Base(name) || name == "." || name == ".." || name == "/" {
		return nil, fmt.Errorf("socket %.100q: want a name in the folder of PLUGIN_UNIX_SOCKET_DIR", name)
	}
	descriptor, err := unix.Openat(int(s.folder.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket %.100q: %w", name, err)
	}
	defer unix.Close(descriptor)
	var st unix.Stat_t
	if err := unix.Fstat(descriptor, &st); err != nil {
		return nil, fmt.Errorf("socket %.100q: %w", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("socket %.100q: it is no socket, or a link to one", name)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", descriptor))
	if err != nil {
		return nil, fmt.Errorf("socket %.100q: %w", name, err)
	}
	if err := s.check(conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("socket %.100q: %w", name, err)
	}
	return conn, nil
}

// check looks at who listens.
func (s *Sockets) check(conn net.Conn) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var option error
	if err := raw.Control(func(fd uintptr) { peer, option = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if option != nil {
		return fmt.Errorf("who listens: %w", option)
	}
	if int(peer.Uid) != s.user {
		return fmt.Errorf("user %d listens to it, want %d", peer.Uid, s.user)
	}
	if s.pids == "" {
		return nil
	}
	if pids, err := os.Readlink(procOf(int(peer.Pid)) + "/ns/pid"); err != nil || pids != s.pids {
		return fmt.Errorf("process %d listens to it, which is none of the plugin's", peer.Pid)
	}
	return nil
}
