package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/e2e/vm/orders"
)

// load loads a module from its file.
func load(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load the module %s: %w", file, err)
	}
	return nil
}

type mount struct{ source, at, kind, options string }

func (m mount) do() error {
	if err := os.MkdirAll(m.at, 0o755); err != nil {
		return err
	}
	var flags uintptr
	if m.kind == "9p" {
		flags = unix.MS_RDONLY
	}
	if err := unix.Mount(m.source, m.at, m.kind, flags, m.options); err != nil {
		return fmt.Errorf("mount %s at %s: %w", m.kind, m.at, err)
	}
	return nil
}

// root mounts the other machine's root with a layer in memory above it, makes it the root of all
// processes, and mounts what a system has.
func root(o orders.Orders) error {
	for _, file := range o.Load {
		if err := load(file); err != nil {
			return err
		}
	}
	for _, m := range []mount{
		{"host", "/host", "9p", "trans=virtio,version=9p2000.L,cache=loose,msize=512000"},
		{"memory", "/memory", "tmpfs", ""},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Mkdir("/memory/upper", 0o755), os.Mkdir("/memory/work", 0o755)); err != nil {
		return err
	}
	layers := mount{"root", "/root", "overlay", "lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work"}
	if err := layers.do(); err != nil {
		return err
	}
	// A root that the kernel unpacked cannot be left by pivot_root, which containers need: the
	// new one is moved over it.
	if err := errors.Join(os.Chdir("/root"), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), os.Chdir("/")); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	mounts := []mount{
		{"proc", "/proc", "proc", ""}, {"sysfs", "/sys", "sysfs", ""}, {"devtmpfs", "/dev", "devtmpfs", ""},
		{"devpts", "/dev/pts", "devpts", "newinstance,ptmxmode=0666"}, {"tmpfs", "/dev/shm", "tmpfs", ""}, {"tmpfs", "/run", "tmpfs", ""},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", ""},
	}
	if !strings.HasPrefix(o.Keep, "/tmp/") {
		mounts = append(mounts, mount{"tmpfs", "/tmp", "tmpfs", "mode=1777"})
	}
	for _, m := range mounts {
		if err := m.do(); err != nil {
			return err
		}
	}
	if err := errors.Join(os.MkdirAll("/lib/modules", 0o755), unix.Mount(o.Modules, "/lib/modules", "", unix.MS_BIND, "")); err != nil {
		return fmt.Errorf("mount the modules: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share the root: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetUp(lo), unix.Sethostname([]byte("debian")))
}
