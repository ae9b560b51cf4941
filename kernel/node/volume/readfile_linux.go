package volume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// maxFile is how large a file may be that the agent reads for a pod.
const maxFile = 1 << 20

// ReadFile reads a file of a pod's volume. Containers write it: what it is, is looked at before it is opened, and links
// lead nowhere but below the volume.
func (m *Manager) ReadFile(pod *corev1.Pod, volume, path string) ([]byte, error) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Name != volume {
			continue
		}
		if v.EmptyDir == nil {
			return nil, fmt.Errorf("volume %q is no emptyDir", volume)
		}
		return readBelow(m.Path(pod, v), path)
	}
	return nil, fmt.Errorf("cannot find volume %q", volume)
}

func readBelow(dir, path string) ([]byte, error) {
	named, err := openBelow(dir, path)
	if err != nil {
		return nil, err
	}
	defer named.Close()
	info, err := named.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", named.Fd()), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("larger than %d bytes", maxFile)}
	}
	return data, nil
}
