package secretfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxSize bounds what is read from one file.
const MaxSize = 1 << 20

// Write replaces path in one step: temporary file, fsync, rename, fsync of the
// directory.
func Write(path string, data []byte, mode os.FileMode) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err = tmp.Chmod(mode); err != nil {
		return err
	}
	if err = give(tmp, dir); err != nil {
		return err
	}
	if _, err = tmp.Write(data); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

// give makes a file that root writes the directory's owner's: the kernel of another
// user has to read it.
func give(file *os.File, dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 {
		return file.Chown(int(st.Uid), int(st.Gid))
	}
	return nil
}

// Read reads a file that is for its owner alone. One that others may read is
// closed to them; a link, or a file of another user, is refused: who made it
// chooses what is in it.
func Read(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s: is a symbolic link; put the file itself there", path)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a file; restore it from a backup", path)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() && owner != 0 {
		return nil, fmt.Errorf("%s: belongs to user %d, who could choose what is in it; give it to the kernel's user (chown %d)", path, owner, os.Geteuid())
	}
	if info.Size() > MaxSize {
		return nil, fmt.Errorf("%s: larger than %d bytes, not a file of this cluster", path, MaxSize)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := file.Chmod(0o600); err != nil {
			return nil, fmt.Errorf("%s: others can read it (mode %04o), and that cannot be changed: %w", path, info.Mode().Perm(), err)
		}
	}
	return io.ReadAll(io.LimitReader(file, MaxSize))
}

// MakeDirectory makes a directory for such files, or closes the one that is
// there to others. As root it belongs to whom the one above it belongs to.
func MakeDirectory(dir string) error {
	_, before := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	if before != nil {
		file, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("create directory: %w", err)
		}
		defer file.Close()
		if err := give(file, filepath.Dir(dir)); err != nil {
			return fmt.Errorf("create directory: %w", err)
		}
	}
	_, err := Close(dir)
	return err
}

// Close takes others' rights to a directory away; closed says that they had some.
func Close(dir string) (closed bool, err error) {
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return false, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return false, fmt.Errorf("directory %s is open to others (mode %04o): %w", dir, info.Mode().Perm(), err)
	}
	return true, nil
}

// Lock waits until nobody else changes a directory; unlock lets the next one.
func Lock(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, ".lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := errors.Join(give(file, dir), flock(file, unix.LOCK_EX)); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

func flock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// heldFile is locked while a process works with a directory.
const heldFile = ".held"

// Hold says to others that a process works with a directory, until release or its
// end. Several may.
func Hold(dir string) (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, heldFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("hold %s: %w", dir, err)
	}
	if err := flock(file, unix.LOCK_SH); err != nil {
		return nil, errors.Join(fmt.Errorf("hold %s: %w", dir, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// Held says whether a process works with a directory.
func Held(dir string) bool {
	file, err := os.OpenFile(filepath.Join(dir, heldFile), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(flock(file, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}
