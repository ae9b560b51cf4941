package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// maxDepth is how many directories in each other are given to a group: each holds a file open.
	maxDepth = 512
	// groupBits are what the group may do: read and write, and enter directories.
	groupBits = 0o660
)

// giveTree gives a directory and what is in it to a group that may read and write it, as the kubelet does for
// fsGroup. Containers that ended wrote it: links are not followed, mounts not entered. With onMismatch nothing is done
// where the directory itself is the group's already.
func giveTree(ctx context.Context, dir string, gid int64, onMismatch bool) error {
	root, err := walk(resolve(dir), false)
	if err != nil {
		return err
	}
	defer root.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return err
	}
	if onMismatch && int64(st.Gid) == gid && st.Mode&(unix.S_ISGID|groupBits) == unix.S_ISGID|groupBits {
		return nil
	}
	// The directory itself goes last: only when all is done it has the group.
	return give(ctx, int(root.Fd()), ".", gid, 0)
}

func give(ctx context.Context, at int, name string, gid int64, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(at, name, &how)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ELOOP) {
		return nil // gone, mounted by another, or a link, which has no permissions of its own
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	directory := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.Fchownat(fd, "", -1, int(gid), unix.AT_EMPTY_PATH)
	}
	bits := st.Mode&0o7777 | groupBits
	if directory {
		if depth == maxDepth {
			return fmt.Errorf("more than %d directories in each other", maxDepth)
		}
		if err := giveEntries(ctx, fd, gid, depth); err != nil {
			return err
		}
		bits |= unix.S_ISGID | 0o110
	}
	if err := unix.Fchownat(fd, "", -1, int(gid), unix.AT_EMPTY_PATH); err != nil {
		return fmt.Errorf("give %s to group %d: %w", name, gid, err)
	}
	// By the open file, which no link can take the place of.
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), bits); err != nil {
		return fmt.Errorf("let group %d use %s: %w", gid, name, err)
	}
	return nil
}

func giveEntries(ctx context.Context, named int, gid int64, depth int) error {
	fd, err := unix.Openat(named, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("read a directory: %w", err)
	}
	dir := os.NewFile(uintptr(fd), "/proc/self/fd/"+strconv.Itoa(fd))
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if err := give(ctx, fd, name, gid, depth+1); err != nil {
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
