package main

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/e2e/vm/orders"
)

func main() {
	if os.Getpid() != 1 {
		os.Exit(work())
	}
	o, out, err := begin()
	status := 1
	if err == nil {
		// Whatever hangs, the machine ends: nothing outside may be left to end it.
		time.AfterFunc(o.Limit, func() { end(out, "\nvm: the limit of time is over\n") })
		status, err = supervise(o, out)
	}
	if err != nil {
		end(out, fmt.Sprintf("vm: %v\n", err))
	}
	end(out, "\n"+o.Last(status)+"\n")
}

// end writes the last words, and switches the machine off.
func end(out *os.File, words string) {
	if out != nil {
		out.WriteString(words)
		unix.IoctlSetInt(int(out.Fd()), unix.TCSBRK, 1) // until they are sent
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// begin reads the orders and opens the output.
func begin() (orders.Orders, *os.File, error) {
	if err := unix.Mount("devtmpfs", "/dev", "devtmpfs", 0, ""); err != nil {
		return orders.Orders{}, nil, fmt.Errorf("mount /dev: %w", err)
	}
	out, err := os.OpenFile(orders.Output, os.O_RDWR, 0)
	if err != nil {
		return orders.Orders{}, nil, err
	}
	fmt.Fprintln(out, orders.Alive)
	o, err := orders.Read()
	return o, out, err
}

// supervise makes the root, starts the process that does the work, and reaps every process until
// that one ends.
func supervise(o orders.Orders, out *os.File) (int, error) {
	if err := root(o); err != nil {
		return 0, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, out, out
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}
	list, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the second process: %w", err)
	}
	if err := send(list, o); err != nil {
		return 0, err
	}
	for {
		var s unix.WaitStatus
		pid, err := unix.Wait4(-1, &s, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, fmt.Errorf("wait for processes: %w", err)
		case pid == cmd.Process.Pid && s.Exited():
			return s.ExitStatus(), nil
		case pid == cmd.Process.Pid && s.Signaled():
			return 0, fmt.Errorf("the second process ended by %s", s.Signal())
		}
	}
}
