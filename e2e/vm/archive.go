package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// archive writes files in the form that Linux unpacks at its start (cpio, newc).
type archive struct {
	w     *bufio.Writer
	size  int64
	inode int
	made  map[string]bool // folders
}

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriter(w), made: map[string]bool{}}
}

func (a *archive) write(data string) error {
	n, err := a.w.WriteString(data)
	a.size += int64(n)
	return err
}

// pad fills up to four bytes, as headers and contents are aligned.
func (a *archive) pad() error { return a.write(strings.Repeat("\x00", int(-a.size&3))) }

// entry begins one: mode as of stat(2), and the size of what follows.
func (a *archive) entry(name string, mode uint32, size int64) error {
	a.inode++
	const links = 1
	header := "070701"
	for _, field := range []int64{int64(a.inode), int64(mode), 0, 0, links, 0, size, 0, 0, 0, 0, int64(len(name) + 1), 0} {
		header += fmt.Sprintf("%08X", field)
	}
	if err := a.write(header + name + "\x00"); err != nil {
		return err
	}
	return a.pad()
}

// dir adds a folder and those that it is in.
func (a *archive) dir(name string) error {
	if name == "." || a.made[name] {
		return nil
	}
	if err := a.dir(path.Dir(name)); err != nil {
		return err
	}
	a.made[name] = true
	return a.entry(name, 0o040755, 0)
}

// file adds a file of this machine under a name without a slash before it.
func (a *archive) file(name, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := a.dir(path.Dir(name)); err != nil {
		return err
	}
	if err := a.entry(name, 0o100000|uint32(info.Mode().Perm()), info.Size()); err != nil {
		return err
	}
	n, err := io.CopyN(a.w, f, info.Size())
	a.size += n
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return a.pad()
}

// end finishes the archive.
func (a *archive) end() error {
	if err := a.entry("TRAILER!!!", 0, 0); err != nil {
		return err
	}
	return a.w.Flush()
}
