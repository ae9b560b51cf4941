package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestImageOf: of a package that depends on a kernel, the kernel.
func TestImageOf(t *testing.T) {
	for depends, want := range map[string]string{
		"linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n": "linux-image-6.1.0-56-amd64",
		"linux-image-6.1.0-1-amd64\n  Depends: kmod\n":               "p",
		"": "p",
	} {
		if got := imageOf("p", depends); got != want {
			t.Errorf("%q: got %s, want %s", depends, got, want)
		}
	}
}

// TestFound: a kernel is one image with its modules.
func TestFound(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := found(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	write("boot/vmlinuz-6.1")
	if _, err := found(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without modules: %v", err)
	}
	write("lib/modules/6.1/modules.dep")
	k, err := found(dir)
	if err != nil || k.version != "6.1" || k.modules != filepath.Join(dir, "lib/modules") {
		t.Errorf("got %+v, %v", k, err)
	}
}

// TestWithNeeded: what a module needs is loaded before it, and once.
func TestWithNeeded(t *testing.T) {
	dep := filepath.Join(t.TempDir(), "modules.dep")
	if err := os.WriteFile(dep, []byte("fs/9p.ko: net/9pnet.ko lib/net-fs.ko\nnet/9pnet.ko:\nlib/net-fs.ko.xz:\nnet/9pnet-virtio.ko.xz: net/9pnet.ko lib/ring.ko\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := withNeeded(dep, []string{"9pnet_virtio", "9p"})
	if want := []string{"lib/ring.ko", "net/9pnet.ko", "net/9pnet-virtio.ko.xz", "lib/net-fs.ko", "fs/9p.ko"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	if _, err := withNeeded(dep, []string{"zfs"}); err == nil {
		t.Error("a module that is missing is no error")
	}
}
