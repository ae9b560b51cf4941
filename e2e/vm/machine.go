package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pintle.dev/pintle/e2e/vm/orders"
)

// accelerator is how qemu runs the processors of a machine.
type accelerator struct {
	name string
	args []string
}

var (
	byKVM = accelerator{"KVM", []string{"-accel", "kvm", "-cpu", "host"}}
	byTCG = accelerator{"TCG, which emulates the processor", []string{"-accel", "tcg,thread=multi", "-cpu", "max"}}
)

// bootLimit is how long a kernel may take by KVM until its first process says that it runs. By
// emulation it takes some five seconds.
const bootLimit = 15 * time.Second

// errNoBoot says that no process of the machine ran.
var errNoBoot = errors.New("the kernel did not boot")

// whyNot says why KVM is not tried; "": it is. A kernel that offers KVM without the processor's
// help (kvm_pvm) takes guests that were built for it: others hang.
func whyNot(dev, modules string) string {
	f, err := os.OpenFile(dev, os.O_RDWR, 0)
	if err != nil {
		return err.Error()
	}
	f.Close()
	for _, name := range []string{"kvm_intel", "kvm_amd"} {
		if _, err := os.Stat(filepath.Join(modules, name)); err == nil {
			return ""
		}
	}
	return "KVM is not by the processor here: neither kvm_intel nor kvm_amd is loaded"
}

// machine is what qemu is asked for.
type machine struct {
	image, initial string
	messages       string // file that takes what the kernel says
	memory         int    // MiB
	out            io.Writer
	log            io.Writer
}

func (m machine) args(a accelerator) []string {
	return append([]string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-m", strconv.Itoa(m.memory), "-smp", "2",
		"-kernel", m.image, "-initrd", m.initial, "-append", "console=ttyS0 loglevel=5 panic=-1",
		"-serial", "file:" + m.messages, "-serial", "stdio",
		"-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap", "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
	}, a.args...)
}

// run boots the machine by KVM, or else by emulation, and returns the status that it ended with.
func (m machine) run(ctx context.Context, o orders.Orders, way string) (int, error) {
	if way != "tcg" {
		why := whyNot("/dev/kvm", "/sys/module")
		if why == "" || way == "kvm" {
			fmt.Fprintln(m.log, "vm: by", byKVM.name)
			status, err := m.boot(ctx, o, byKVM, bootLimit)
			if way == "kvm" || !errors.Is(err, errNoBoot) {
				return status, err
			}
			why = err.Error()
		}
		fmt.Fprintln(m.log, "vm:", why)
	}
	fmt.Fprintln(m.log, "vm: by", byTCG.name)
	return m.boot(ctx, o, byTCG, o.Limit)
}

// boot runs qemu once. The kernel has a limit of time for its start.
func (m machine) boot(ctx context.Context, o orders.Orders, a accelerator, limit time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Limit+limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", m.args(a)...)
	cmd.WaitDelay = time.Minute
	cmd.Stderr = m.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	late := time.AfterFunc(limit, cancel)
	r := read(out, o, m.out, func() { late.Stop() })
	cancelled := ctx.Err()
	err = cmd.Wait()
	switch {
	case r.ended:
		return r.status, nil
	case !r.alive:
		return 0, errors.Join(fmt.Errorf("%w by %s within %s:\n%s", errNoBoot, a.name, limit, tail(m.messages)), err, cancelled)
	}
	return 0, errors.Join(fmt.Errorf("the machine ended without a status:\n%s", tail(m.messages)), err, cancelled)
}

// reading is what was seen on the machine's output.
type reading struct {
	alive, ended bool
	status       int
}

// read passes the output on, from the line on that says that the kernel runs, to the line that has
// the status. Nothing else is a status, whatever programs print.
func read(from io.Reader, o orders.Orders, to io.Writer, alive func()) reading {
	var r reading
	for in := bufio.NewReader(from); ; {
		line, err := in.ReadString('\n')
		text := strings.TrimRight(line, "\r\n")
		word, status, _ := strings.Cut(text, " ")
		switch {
		case !r.alive:
			if r.alive = text == orders.Alive; r.alive {
				alive()
			}
		case word == o.Word:
			if n, err := strconv.Atoi(status); err == nil {
				r.ended, r.status = true, n
			}
		default:
			io.WriteString(to, line)
		}
		if err != nil {
			return r
		}
	}
}

// tail is the end of a file.
func tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	const most = 4 << 10
	return string(data[max(0, len(data)-most):])
}
