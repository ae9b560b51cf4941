//go:build linux && (amd64 || arm64)

package crash

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the kernel's seccomp.h says and x/sys/unix does not.
const (
	seccompSetModeFilter = 1
	flagTSync            = 1 << 0
	flagNewListener      = 1 << 3
	flagTSyncESRCH       = 1 << 4
	returnUserNotify     = 0x7fc00000
	returnAllow          = 0x7fff0000
	notifyReceive        = 0xc0502100
	notifySend           = 0xc0182101
	notifyContinue       = 1
)

type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type notificationAnswer struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

// announceSyncs makes every sync of this process, and every opening of a file whose writes are all synced, wait for whoever holds the returned descriptor.
func announceSyncs() (listener int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("no_new_privs: %w", err)
	}
	jump := func(nr uintptr, yes uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, K: uint32(nr)}
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		jump(unix.SYS_MSYNC, 6),
		jump(unix.SYS_FSYNC, 5),
		jump(unix.SYS_FDATASYNC, 4),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 2, K: unix.SYS_OPENAT},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16 + 2*8}, // its flags
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: 1, K: unix.O_DSYNC},
		{Code: unix.BPF_RET | unix.BPF_K, K: returnAllow},
		{Code: unix.BPF_RET | unix.BPF_K, K: returnUserNotify},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, seccompSetModeFilter, flagTSync|flagNewListener|flagTSyncESRCH, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return -1, fmt.Errorf("seccomp filter with a listener: %w", errno)
	}
	return int(fd), nil
}

// sendDescriptor and receiveDescriptor pass a file descriptor through a unix socket.
func sendDescriptor(socket *os.File, fd int) error {
	return unix.Sendmsg(int(socket.Fd()), []byte{0}, unix.UnixRights(fd), nil, 0)
}

func receiveDescriptor(socket *net.UnixConn) (int, error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := socket.ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("no descriptor came: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("no descriptor came: %w", err)
	}
	return fds[0], nil
}

// syncCall is one sync that a process is about to do.
type syncCall struct {
	pid uint32
	nr  int
	// fd is that of fsync and fdatasync, address that of msync, or of the path that is opened.
	fd      int
	address uint64
}

// opened is the path of a file that is opened so that each write is a sync of its own.
func (c syncCall) opened() (string, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", c.pid))
	if err != nil {
		return "", err
	}
	defer f.Close()
	path := make([]byte, 512)
	n, err := f.ReadAt(path, int64(c.address))
	if end := bytes.IndexByte(path[:n], 0); end >= 0 {
		return string(path[:end]), nil
	}
	return "", fmt.Errorf("no path at %x: %w", c.address, err)
}

// listen calls before with every sync until it returns false or the process ends.
func listen(listener int, before func(syncCall) (goOn bool)) error {
	for {
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil {
			return fmt.Errorf("waiting for a sync: %w", err)
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return nil // the process has ended
		}
		var n notification
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), notifyReceive, uintptr(unsafe.Pointer(&n))); errno == unix.ENOENT || errno == unix.EINTR {
			continue
		} else if errno != 0 {
			return fmt.Errorf("receiving a sync: %w", errno)
		}
		call := syncCall{pid: n.pid, nr: int(n.nr), fd: int(int32(n.args[0]))}
		switch n.nr {
		case unix.SYS_MSYNC:
			call.fd, call.address = -1, n.args[0]
		case unix.SYS_OPENAT:
			call.address = n.args[1]
		}
		if !before(call) {
			return nil
		}
		answer := notificationAnswer{id: n.id, flags: notifyContinue}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), notifySend, uintptr(unsafe.Pointer(&answer))); errno != 0 && errno != unix.ENOENT && errno != unix.EINTR {
			return fmt.Errorf("letting a sync go on: %w", errno)
		}
	}
}
