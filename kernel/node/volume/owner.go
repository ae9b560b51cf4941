package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// groupBits are what the group may do with files, execBits what it may do with directories besides.
	groupBits = 0o660
	execBits  = 0o110
	// maxPending is how many directories wait to be read. Those found beyond it are read at once, each while its parent
	// is open, up to maxOpen in each other.
	maxPending = 1 << 16
	maxOpen    = 64
)

// leftovers are files that did not get the group or the mode: how many, and why the first.
type leftovers struct {
	count int
	first error
}

func (l *leftovers) add(err error) {
	if l.count++; l.first == nil {
		l.first = err
	}
}

// giveTree gives a directory and what is in it to a group that may read and write it, as the kubelet does for
// fsGroup. Containers that ended wrote it: links are not followed, mounts not entered. With onMismatch nothing is done
// where the directory itself is the group's already. allowed is asked about the real path of the directory once it is
// open, so that no exchange of names leads to another. As with the kubelet, a file that refuses the change is left over
// and ends nothing.
func giveTree(ctx context.Context, dir string, gid int64, onMismatch bool, allowed func(real string) error) (leftovers, error) {
	root, err := walk(resolve(dir), false)
	if err != nil {
		return leftovers{}, err
	}
	defer root.Close()
	real, err := realPath(root)
	if err != nil {
		return leftovers{}, err
	}
	if err := allowed(real); err != nil {
		return leftovers{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return leftovers{}, err
	}
	const want = unix.S_ISGID | groupBits | execBits
	if onMismatch && int64(st.Gid) == gid && st.Mode&want == want {
		return leftovers{}, nil
	}
	t := tree{root: int(root.Fd()), gid: int(gid), maxPending: maxPending, maxOpen: maxOpen}
	if err := t.giveAll(ctx); err != nil {
		return t.left, err
	}
	// The directory itself goes last: only when all is done it has the group.
	t.change(t.root, ".", &st)
	return t.left, nil
}

// tree is a walk through a directory. It opens each directory by its path from the root: depth costs no open file.
type tree struct {
	root                int // opened for nothing but its name
	gid                 int
	maxPending, maxOpen int
	pending             []*below
	left                leftovers
}

// below is a directory by its name and the one that it lies in, nil for the root.
type below struct {
	in   *below
	name string
}

func (d *below) path() string {
	if d == nil {
		return "."
	}
	var names []string
	for ; d != nil; d = d.in {
		names = append(names, d.name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// giveAll gives what lies below the root.
func (t *tree) giveAll(ctx context.Context) error {
	if err := t.giveEntries(ctx, nil, 1); err != nil {
		return err
	}
	for len(t.pending) > 0 {
		last := len(t.pending) - 1
		d := t.pending[last]
		t.pending[last], t.pending = nil, t.pending[:last]
		if err := t.giveEntries(ctx, d, 1); err != nil {
			return err
		}
	}
	return nil
}

// openBeneath opens what is below a directory by a path without links and mounts. It answers -1 for what is gone, a
// link or a mount.
func openBeneath(at int, path string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(at, path, &how)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return -1, nil
	case err != nil:
		return -1, err
	}
	return fd, nil
}

// giveEntries gives the entries of a directory; open is how many directories are open with it.
func (t *tree) giveEntries(ctx context.Context, d *below, open int) error {
	fd, err := openBeneath(t.root, d.path(), unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENAMETOOLONG) {
		t.left.add(fmt.Errorf("read directory %q: it is too deep: %w", d.name, err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("read directory %q: %w", filepath.Base(d.path()), err)
	}
	if fd < 0 {
		return nil
	}
	dir := os.NewFile(uintptr(fd), d.path())
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			directory, err := t.give(fd, name)
			if err != nil {
				return err
			}
			if !directory {
				continue
			}
			if err := t.enter(ctx, &below{d, name}, open); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// enter has a directory read later, or now where too many wait.
func (t *tree) enter(ctx context.Context, d *below, open int) error {
	switch {
	case len(t.pending) < t.maxPending:
		t.pending = append(t.pending, d)
	case open < t.maxOpen:
		return t.giveEntries(ctx, d, open+1)
	default:
		t.left.add(fmt.Errorf("read directory %q: more than %d directories wait to be read", d.name, t.maxPending))
	}
	return nil
}

// give gives one entry of a directory, not what is in it, and says whether it is a directory.
func (t *tree) give(at int, name string) (directory bool, err error) {
	fd, err := openBeneath(at, name, unix.O_PATH)
	if err != nil {
		return false, fmt.Errorf("open %q: %w", name, err)
	}
	if fd < 0 {
		return false, nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, fmt.Errorf("stat %q: %w", name, err)
	}
	t.change(fd, name, &st)
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// change gives an open file to the group. A link has no permissions of its own.
func (t *tree) change(fd int, name string, st *unix.Stat_t) {
	err := unix.Fchownat(fd, "", -1, t.gid, unix.AT_EMPTY_PATH)
	bits := st.Mode&0o7777 | groupBits
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		bits |= unix.S_ISGID | execBits
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		// By the open file, which no link can take the place of.
		err = errors.Join(err, unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), bits))
	}
	if err != nil {
		t.left.add(fmt.Errorf("give %q to group %d: %w", name, t.gid, err))
	}
}
