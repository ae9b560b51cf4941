package localvolume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// batch is how many entries of a directory are read at once.
const batch = 1024

// inside opens an entry of a directory that is neither a link nor a mount.
var inside = unix.OpenHow{
	Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
	Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS,
}

// removeTree deletes the directory name of at. Directories in it that hold something are moved up into it and
// then emptied in turn. Until it returns nil, the directory is there, and another call goes on.
func removeTree(ctx context.Context, at int, name string) error {
	top, err := openInside(at, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer top.Close()
	moved := 0
	for {
		again, err := flatten(ctx, top, &moved)
		if err != nil {
			return err
		}
		if !again {
			break
		}
	}
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err != nil {
		return &fs.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// flatten empties the directories of top, moving those in them up, and then those that it moved, by their
// numbers: to read top again for each level would take the square of their number. It says whether there may be
// more.
func flatten(ctx context.Context, top *os.File, moved *int) (again bool, err error) {
	if _, err := top.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	done := *moved
	err = entries(ctx, top, func(name string, dir bool) error {
		again = true
		if !dir {
			return unlink(top, name)
		}
		return empty(ctx, top, name, moved)
	})
	for err == nil && done < *moved {
		done++
		if err = ctx.Err(); err == nil {
			err = empty(ctx, top, number(done), moved)
		}
	}
	return again, err
}

// empty deletes a directory of top with its files, after it has moved the directories in it up.
func empty(ctx context.Context, top *os.File, name string, moved *int) error {
	err := unix.Unlinkat(int(top.Fd()), name, unix.AT_REMOVEDIR)
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil // a file of the name is for the next reading
	}
	sub, err := openInside(int(top.Fd()), name)
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := entries(ctx, sub, func(below string, dir bool) error {
		if !dir {
			return unlink(sub, below)
		}
		return lift(sub, below, top, moved)
	}); err != nil {
		return err
	}
	if err := unix.Unlinkat(int(top.Fd()), name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// number is the name of the nth directory that was moved up.
func number(n int) string { return "." + strconv.Itoa(n) }

// lift moves a directory up into top under a name that nothing there has.
func lift(from *os.File, name string, top *os.File, moved *int) error {
	for mended := false; ; {
		*moved++
		err := unix.Renameat2(int(from.Fd()), name, int(top.Fd()), number(*moved), unix.RENAME_NOREPLACE)
		switch {
		case errors.Is(err, unix.EEXIST):
			continue
		case errors.Is(err, unix.EACCES) && !mended: // its owner may not write it
			sub, err := openInside(int(from.Fd()), name)
			if err != nil {
				return err
			}
			if err := errors.Join(sub.Chmod(0o700), sub.Close()); err != nil {
				return err
			}
			mended = true
			continue
		case err != nil && !errors.Is(err, unix.ENOENT):
			return fmt.Errorf("move directory %q up: %w", name, err)
		}
		return nil
	}
}

func unlink(dir *os.File, name string) error {
	if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "unlink", Path: name, Err: err}
	}
	return nil
}

// entries calls do for what is in a directory at this moment.
func entries(ctx context.Context, dir *os.File, do func(name string, directory bool) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		list, err := dir.ReadDir(batch)
		for _, e := range list {
			if err := do(e.Name(), e.IsDir()); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(list) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// openInside opens a directory of at; a mode that lets its owner not read it is mended first.
func openInside(at int, name string) (*os.File, error) {
	for range 32 {
		fd, err := unix.Openat2(at, name, &inside)
		switch {
		case err == nil:
			// Go looks up entries of unknown type below this name.
			return os.NewFile(uintptr(fd), "/proc/self/fd/"+strconv.Itoa(fd)), nil
		case errors.Is(err, unix.EACCES):
			how := inside
			how.Flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
			named, err := unix.Openat2(at, name, &how)
			if err != nil {
				return nil, &fs.PathError{Op: "open", Path: name, Err: err}
			}
			err = unix.Chmod("/proc/self/fd/"+strconv.Itoa(named), 0o700)
			_ = unix.Close(named)
			if err != nil {
				return nil, &fs.PathError{Op: "chmod", Path: name, Err: err}
			}
		case errors.Is(err, unix.EXDEV):
			return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("something is mounted there: unmount it")}
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("it is being changed all the time")}
}
