package cluster

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
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
			if err := StartProcess(cmd); err != nil {
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
	for limit := time.Now().Add(2 * time.Minute); syscall.Tgkill(syscall.Getpid(), id, 0) == nil; {
		if time.Now().After(limit) {
			t.Fatal("the thread does not end")
		}
		runtime.Gosched()
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process ended with its thread: %v", err)
	}
}
