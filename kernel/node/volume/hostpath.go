package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// checkHostPath makes what …OrCreate asks for and refuses a path of another type.
func checkHostPath(h *corev1.HostPathVolumeSource) error {
	if h.Type == nil || *h.Type == corev1.HostPathUnset {
		return nil
	}
	kind := *h.Type
	info, err := os.Stat(h.Path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	check := func(ok bool, what string) error {
		if missing || !ok {
			return fmt.Errorf("hostPath type check failed: %s is not a %s", h.Path, what)
		}
		return nil
	}
	switch kind {
	case corev1.HostPathDirectoryOrCreate:
		if missing {
			f, err := walk(resolve(h.Path), true)
			if err != nil {
				return err
			}
			return f.Close()
		}
		return check(info.IsDir(), "directory")
	case corev1.HostPathFileOrCreate:
		if missing {
			return makeFile(resolve(h.Path))
		}
		return check(info.Mode().IsRegular(), "file")
	case corev1.HostPathDirectory:
		return check(!missing && info.IsDir(), "directory")
	case corev1.HostPathFile:
		return check(!missing && info.Mode().IsRegular(), "file")
	case corev1.HostPathSocket:
		return check(!missing && info.Mode()&fs.ModeSocket != 0, "socket file")
	case corev1.HostPathCharDev:
		return check(!missing && info.Mode()&fs.ModeCharDevice != 0, "character device")
	case corev1.HostPathBlockDev:
		return check(!missing && info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0, "block device")
	}
	return fmt.Errorf("hostPath %s: unknown type %q", h.Path, kind)
}

// walk opens a directory by a path without links, so that nobody who puts one there meanwhile leads it elsewhere. With
// create, what is missing is made with mode 0755, whatever the umask.
func walk(path string, create bool) (*os.File, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open("/", flags, 0)
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		if err != nil || name == "" {
			break
		}
		next, nerr := unix.Openat(fd, name, flags, 0)
		if create && errors.Is(nerr, unix.ENOENT) {
			nerr = unix.Mkdirat(fd, name, 0o755)
			made := nerr == nil
			if made || errors.Is(nerr, unix.EEXIST) {
				next, nerr = unix.Openat(fd, name, flags, 0)
			}
			if made && nerr == nil {
				if nerr = os.Chmod(fmt.Sprintf("/proc/self/fd/%d", next), 0o755); nerr != nil {
					_ = unix.Close(next)
				}
			}
		}
		_ = unix.Close(fd)
		fd, err = next, nerr
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// makeFile makes a file with mode 0644, whatever the umask, by a path without links.
func makeFile(path string) error {
	dir, err := walk(filepath.Dir(path), false)
	if err != nil {
		return err
	}
	defer dir.Close()
	fd, err := unix.Openat(int(dir.Fd()), filepath.Base(path), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return &fs.PathError{Op: "create", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	return errors.Join(f.Chmod(0o644), f.Close())
}
