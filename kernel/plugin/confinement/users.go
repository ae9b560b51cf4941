package confinement

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Users are the user ids that this kernel has of those of the machine: several
// kernels on one machine, and commands that run plugins beside them, give out none
// twice. What they have are locks, which end with them.
type Users struct {
	mu   sync.Mutex
	held map[int]*os.File
}

// registry is the folder of the locks.
func registry() (string, error) {
	parent := "/run"
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = os.TempDir()
	}
	dir := filepath.Join(parent, "pintle-users")
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s was not made by this user for itself alone; remove it", dir)
	}
	return dir, nil
}

// Take reports whether the user id is this kernel's from now on.
func (u *Users) Take(id int) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.held[id] != nil {
		return true, nil
	}
	dir, err := registry()
	if err != nil {
		return false, fmt.Errorf("user ids of plugins: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(id)), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false, fmt.Errorf("user ids of plugins: %w", err)
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return false, nil
	case err != nil:
		f.Close()
		return false, fmt.Errorf("user ids of plugins: lock %s: %w", f.Name(), err)
	}
	if u.held == nil {
		u.held = map[int]*os.File{}
	}
	u.held[id] = f
	return true, nil
}

// Release gives them back, for other kernels.
func (u *Users) Release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, f := range u.held {
		f.Close()
	}
	u.held = nil
}
