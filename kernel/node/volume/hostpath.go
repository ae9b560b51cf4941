package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
			return makeHostDir(h.Path)
		}
		return check(info.IsDir(), "directory")
	case corev1.HostPathFileOrCreate:
		if missing {
			f, err := os.OpenFile(h.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			return errors.Join(f.Chmod(0o644), f.Close())
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

// makeHostDir makes a directory and those above it with mode 0755, whatever the umask.
func makeHostDir(path string) error {
	if err := os.Mkdir(path, 0o755); err == nil {
		return os.Chmod(path, 0o755)
	} else if errors.Is(err, fs.ErrExist) {
		return nil // made meanwhile
	} else if parent := filepath.Dir(path); !errors.Is(err, fs.ErrNotExist) || parent == path {
		return err
	} else if err := makeHostDir(parent); err != nil {
		return err
	}
	return makeHostDir(path)
}
