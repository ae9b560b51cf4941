//go:build linux && (amd64 || arm64) && !race

package lastwords

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// traceFD is where the program finds the trace.
const traceFD = 3

// What the handler reads: it runs when nothing can be handed to it. Written by arm, before the handler is in force.
var (
	former  uintptr // the runtime's handler of SIGABRT
	screen  uintptr // a descriptor of the standard error
	program *byte
	argv    **byte
	envp    **byte
)

// handlerPC is the handler's address.
var handlerPC uintptr

// action is struct sigaction of the kernel, its mask aside; both architectures have the same.
type action struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

func setAction(next, before *action) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGABRT), uintptr(unsafe.Pointer(next)), uintptr(unsafe.Pointer(before)), unsafe.Sizeof(action{}.mask), 0, 0)
	if errno != 0 {
		return fmt.Errorf("the handler of SIGABRT: %w", errno)
	}
	return nil
}

func arm(args []string) (release func(), err error) {
	path, err := syscall.BytePtrFromString(args[0])
	if err != nil {
		return nil, err
	}
	argvs, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return nil, err
	}
	envs, err := syscall.SlicePtrFromStrings(os.Environ())
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(uintptr(unix.Stderr), unix.F_DUPFD_CLOEXEC, traceFD+1)
	if err != nil {
		return nil, fmt.Errorf("the standard error: %w", err)
	}
	memory, err := unix.MemfdCreate("last-words", unix.MFD_CLOEXEC)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("memory for last words: %w", err)
	}
	defer unix.Close(memory)

	before := new(action)
	if err := setAction(nil, before); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	former, screen, program, argv, envp = before.handler, uintptr(fd), path, &argvs[0], &envs[0]
	own := *before
	own.handler = handlerPC
	if err := setAction(&own, nil); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	// Everybody has the same *os.File, some since before main. The old one has to live: its end would close the descriptor.
	old := *os.Stderr
	*os.Stderr = *os.NewFile(uintptr(fd), old.Name())
	disarm := func() {
		_ = unix.Dup3(fd, unix.Stderr, 0)
		_ = os.Stderr.Close()
		*os.Stderr = old
		debug.SetTraceback("single")
		_ = setAction(before, nil)
	}
	if err := unix.Dup3(memory, unix.Stderr, 0); err != nil {
		disarm()
		return nil, fmt.Errorf("the standard error: %w", err)
	}
	debug.SetTraceback("crash")
	return disarm, nil
}
