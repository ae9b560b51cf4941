package localvolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/sdk/localvolumes"
)

// Permissions: containers of any user write a volume, and other users of the machine do not get to it.
const (
	rootMode   = 0o700
	volumeMode = 0o777
)

// removing is put before the name of a volume that is being removed.
const removing = ".removing-"

// NameError is a name that no volume has.
type NameError struct{ Name string }

func (e *NameError) Error() string {
	return fmt.Sprintf("%q is not the name of a local volume: pvc- and the UID of a claim", e.Name)
}

// InUseError is a volume that a pod of this node has.
type InUseError struct{ Name, User string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("local volume %s is in use by pod %s", e.Name, e.User)
}

// ErrGoesOn is the end of the time for a removal that has not come to its end: ask for it again.
var ErrGoesOn = errors.New("the volume is not removed yet")

// Store holds the volumes of a node.
type Store struct {
	root string
	mu   sync.Mutex    // between making and renaming
	work chan struct{} // holds one while a volume is removed, one at a time: the disk is the bottleneck
}

// New keeps volumes below root, an absolute path, which is made when the first volume is.
func New(root string) *Store { return &Store{root: root, work: make(chan struct{}, 1)} }

// Root is the directory below which volumes lie.
func (s *Store) Root() string { return s.root }

// Path is where a volume is; the name must be valid.
func (s *Store) Path(name string) string { return filepath.Join(s.root, name) }

// Make makes a volume unless it is there, after note has written down who uses it.
func (s *Store) Make(name string, note func() error) error {
	if !localvolumes.Valid(name) {
		return &NameError{name}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := note(); err != nil {
		return err
	}
	root, err := s.open()
	if err != nil {
		return err
	}
	defer root.Close()
	at := int(root.Fd())
	err = unix.Mkdirat(at, name, volumeMode)
	if errors.Is(err, unix.EEXIST) {
		return isDirectory(at, name)
	}
	if err == nil {
		err = unix.Fchmodat(at, name, volumeMode, 0) // whatever the umask
	}
	if err != nil {
		return &fs.PathError{Op: "make local volume", Path: s.Path(name), Err: err}
	}
	return nil
}

// open makes the root if it is missing, and opens it. The agent's user alone may enter it.
func (s *Store) open() (*os.File, error) {
	if err := os.MkdirAll(s.root, rootMode); err != nil {
		return nil, fmt.Errorf("directory of local volumes: %w", err)
	}
	fd, err := unix.Open(s.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: s.root, Err: err}
	}
	root := os.NewFile(uintptr(fd), s.root)
	if err := root.Chmod(rootMode); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

func isDirectory(at int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &fs.PathError{Op: "local volume", Path: name, Err: unix.ENOTDIR}
	}
	return nil
}

// Remove deletes a volume and what is in it; one that is not there is removed already. user names a pod that
// uses it, or nothing. When ctx ends before all is gone, also while another removal has its turn, the error is ErrGoesOn.
func (s *Store) Remove(ctx context.Context, name string, user func() (string, error)) error {
	if !localvolumes.Valid(name) {
		return &NameError{name}
	}
	select {
	case s.work <- struct{}{}:
	default:
		select {
		case s.work <- struct{}{}:
		case <-ctx.Done():
			return ErrGoesOn
		}
	}
	defer func() { <-s.work }()
	for more := true; more; {
		var root *os.File
		var err error
		if root, more, err = s.retire(name, user); err != nil {
			return err
		}
		err = errors.Join(removeTree(ctx, int(root.Fd()), removing+name), root.Close())
		if err != nil && ctx.Err() != nil {
			return ErrGoesOn
		}
		if err != nil {
			return fmt.Errorf("remove local volume %s: %w", name, err)
		}
	}
	return nil
}

// retire gives a volume that no pod uses the name under which it is removed. With more, another has that name:
// a removal was interrupted, and the volume was made anew since.
func (s *Store) retire(name string, user func() (string, error)) (root *os.File, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	who, err := user()
	if err != nil {
		return nil, false, fmt.Errorf("find who uses local volume %s: %w", name, err)
	}
	if who != "" {
		return nil, false, &InUseError{Name: name, User: who}
	}
	if root, err = s.open(); err != nil {
		return nil, false, err
	}
	at := int(root.Fd())
	switch err := unix.Renameat2(at, name, at, removing+name, unix.RENAME_NOREPLACE); {
	case err == nil, errors.Is(err, unix.ENOENT):
		return root, false, nil
	case errors.Is(err, unix.EEXIST):
		return root, true, nil
	default:
		return nil, false, errors.Join(&fs.PathError{Op: "rename", Path: s.Path(name), Err: err}, root.Close())
	}
}
