package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// folderPrefix begins the names of the folders of runs. It is short: sockets lie below.
const folderPrefix = "pth-"

// folder is the folder of one run. Its lock ends with the process, however that ends.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a folder below parent and locks it.
func newFolder(parent string) (*folder, error) {
	for {
		path, err := os.MkdirTemp(parent, folderPrefix)
		if err != nil {
			return nil, err
		}
		// Another process that begins may look at the folder before it is locked, and remove it.
		lock, err := lockFolder(path)
		switch {
		case err == nil:
			return &folder{path, lock}, nil
		case errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EWOULDBLOCK):
			continue
		default:
			return nil, errors.Join(err, os.Remove(path))
		}
	}
}

// remove removes the folder, and then gives its lock up.
func (f *folder) remove() error {
	return errors.Join(os.RemoveAll(f.path), f.lock.Close())
}

// lockFolder locks a folder of this user, and of no other. The error is unix.EWOULDBLOCK where
// a process has it, and os.ErrNotExist where it is no more.
func lockFolder(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	if err := lockOpen(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock folder %s: %w", path, err), f.Close())
	}
	return f, nil
}

func lockOpen(f *os.File) error {
	var open, named unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &open); err != nil {
		return err
	}
	if int(open.Uid) != os.Geteuid() {
		return fmt.Errorf("it is user %d's", open.Uid)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	if err := unix.Lstat(f.Name(), &named); err != nil {
		return err
	}
	if named.Dev != open.Dev || named.Ino != open.Ino {
		return os.ErrNotExist // it was removed, and the name is another's
	}
	return nil
}

// removeLeft removes the folders below parent that processes which were killed left.
func removeLeft(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	var faults []error
	for _, entry := range entries {
		number, ok := strings.CutPrefix(entry.Name(), folderPrefix)
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" || !entry.IsDir() {
			continue
		}
		path := filepath.Join(parent, entry.Name())
		lock, err := lockFolder(path)
		if err != nil {
			continue // in use, another user's, or no more
		}
		faults = append(faults, os.RemoveAll(path), lock.Close())
	}
	return errors.Join(faults...)
}
