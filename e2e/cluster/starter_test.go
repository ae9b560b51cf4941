package cluster

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// TestStartOutlivesThread: a process lives on when the thread ends whose goroutine wanted it.
func TestStartOutlivesThread(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	thread := make(chan int)
	order := func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		id := syscall.Gettid()
		if id != os.Getpid() {
			if err := (*Network)(nil).Start(cmd); err != nil {
				t.Error(err)
			}
		}
		thread <- id
	}
	go order()
	id := <-thread
	if id == os.Getpid() { // the main thread never ends, and is no goroutine's from now on
		go order()
		id = <-thread
	}
	for syscall.Tgkill(syscall.Getpid(), id, 0) == nil {
		runtime.Gosched() // until the thread is gone
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process ended with its thread: %v", err)
	}
}
