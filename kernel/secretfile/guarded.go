package secretfile

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// ReadGuarded reads a file of an operator that says who may come in or who may do
// what. Others may read it; they may not write it.
func ReadGuarded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := closedToWriters(path, info); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxSize {
		return nil, fmt.Errorf("it has %d bytes; at most %d are read", max(info.Size(), int64(len(data))), MaxSize)
	}
	return data, nil
}

// ClosedToWriters is what ReadGuarded asks of a file, for one that a library reads.
func ClosedToWriters(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return closedToWriters(path, info)
}

func closedToWriters(path string, info os.FileInfo) error {
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("%s: everybody may write it (mode %04o), and so let himself in; take that right away (chmod o-w)", path, info.Mode().Perm())
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
		return fmt.Errorf("%s: belongs to user %d, who could let himself in; give it to the kernel's user (chown %d) or root", path, owner, os.Geteuid())
	}
	return nil
}
