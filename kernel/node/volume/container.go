package volume

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/container"
)

// ContainerInput is what a container's mounts are made from.
type ContainerInput struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	Env       map[string]string // for subPathExpr
	// Images are those of the pod's image volumes, by volume.
	Images map[string]*runtimeapi.ImageSpec
	PodIPs []string
	// Host and Domain are the pod's host name and domain, for its hosts file.
	Host, Domain string
}

// Mounts are the runtime mounts of one container: its volumeMounts, the hosts file and the termination message file.
func (m *Manager) Mounts(in ContainerInput) ([]*runtimeapi.Mount, error) {
	defer m.lock(in.Pod.UID)()
	var out []*runtimeapi.Mount
	hostsMounted := false
	for i := range in.Container.VolumeMounts {
		vm := &in.Container.VolumeMounts[i]
		hostsMounted = hostsMounted || vm.MountPath == "/etc/hosts"
		mounts, err := m.volumeMount(in, i, vm)
		if err != nil {
			return nil, err
		}
		out = append(out, mounts...)
	}
	if !hostsMounted && (len(in.PodIPs) > 0 || in.Pod.Spec.HostNetwork) {
		file := filepath.Join(m.PodDir(in.Pod.UID), "etc-hosts")
		content, err := hosts(in)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return nil, fmt.Errorf("write hosts file of pod %s: %w", container.Format(in.Pod), err)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			return nil, err
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: "/etc/hosts", HostPath: file, SelinuxRelabel: true})
	}
	if p := in.Container.TerminationMessagePath; p != "" {
		file, err := m.messageFile(in)
		if err != nil {
			return nil, err
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: p, HostPath: file, SelinuxRelabel: true})
	}
	return out, nil
}

func (m *Manager) volumeMount(in ContainerInput, index int, vm *corev1.VolumeMount) ([]*runtimeapi.Mount, error) {
	var v *corev1.Volume
	for i := range in.Pod.Spec.Volumes {
		if in.Pod.Spec.Volumes[i].Name == vm.Name {
			v = &in.Pod.Spec.Volumes[i]
		}
	}
	if v == nil {
		return nil, fmt.Errorf("cannot find volume %q to mount into container %q", vm.Name, in.Container.Name)
	}
	if _, there := m.backed(in.Pod.UID, v.Name); claimed(v) && !there {
		return nil, fmt.Errorf("the claim of volume %q of container %q is not mounted", vm.Name, in.Container.Name)
	}
	readOnly := vm.ReadOnly || readOnly(v)
	v = m.seen(in.Pod, v)
	target := vm.MountPath
	if !filepath.IsAbs(target) {
		target = filepath.Join("/", target)
	}
	host, masks := m.Path(in.Pod, v), []string(nil)
	sub := vm.SubPath
	if vm.SubPathExpr != "" {
		var unknown string
		sub = container.Expand(vm.SubPathExpr, func(name string) (string, bool) {
			value, ok := in.Env[name]
			if !ok {
				unknown = name
			}
			return value, ok
		})
		if unknown != "" {
			return nil, fmt.Errorf("missing value for %q", unknown)
		}
	}
	if sub != "" {
		if filepath.IsAbs(sub) {
			return nil, fmt.Errorf("error SubPath `%s` must not be an absolute path", sub)
		}
		if path.Clean("/"+sub) == "/" || strings.Contains("/"+sub+"/", "/../") {
			return nil, fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", sub)
		}
		if v.Image == nil {
			var err error
			if host, masks, err = m.subPath(in, index, v, host, sub); err != nil {
				return nil, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", vm.Name, in.Container.Name, err)
			}
		}
	} else if v.HostPath != nil {
		var err error
		if host, masks, err = m.hostMount(in, index, vm.Name, host); err != nil {
			return nil, fmt.Errorf("failed to prepare volumeMount %q of container %q: %w", vm.Name, in.Container.Name, err)
		}
	}
	if v.Image != nil {
		image := in.Images[v.Name]
		if image == nil {
			return nil, fmt.Errorf("image of volume %q is not on the node", v.Name)
		}
		return []*runtimeapi.Mount{{ContainerPath: target, Image: image, ImageSubPath: sub, Readonly: true, SelinuxRelabel: true}}, nil
	}
	propagation := runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	if vm.MountPropagation != nil {
		switch *vm.MountPropagation {
		case corev1.MountPropagationHostToContainer:
			propagation = runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
		case corev1.MountPropagationBidirectional:
			propagation = runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
		}
	}
	// Object-backed volumes belong to the agent: a container can not write them.
	readOnly = readOnly || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
	out := []*runtimeapi.Mount{{
		ContainerPath: target, HostPath: host, Readonly: readOnly, Propagation: propagation,
		RecursiveReadOnly: vm.ReadOnly && vm.RecursiveReadOnly != nil && *vm.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled,
		SelinuxRelabel:    v.HostPath == nil,
	}}
	if len(masks) > 0 && propagation == runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL {
		// What hides the kernel's directory in the container would hide it from the kernel, too.
		return nil, fmt.Errorf("volumeMount %q of container %q: a host path above the kernel's own directories cannot be mounted with propagation Bidirectional", vm.Name, in.Container.Name)
	}
	for _, rel := range masks {
		empty, err := m.emptyMask()
		if err != nil {
			return nil, err
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: filepath.Join(target, rel), HostPath: empty, Readonly: true})
	}
	return out, nil
}

// emptyMask is an empty directory that hides others.
func (m *Manager) emptyMask() (string, error) {
	dir := filepath.Join(m.root, "empty")
	if err := os.MkdirAll(dir, 0o555); err != nil {
		return "", fmt.Errorf("make an empty directory: %w", err)
	}
	return dir, nil
}

// hostMount opens a host path and looks at where it leads, links followed. As root it binds what was opened, so that a
// swap of the path by another pod that may write beside it leads nowhere else. A path above guarded directories is given
// as it is, with what must be hidden in it: bound below itself it would hold itself.
func (m *Manager) hostMount(in ContainerInput, index int, volume, path string) (host string, masks []string, err error) {
	if len(m.guard.dirs) == 0 {
		return path, nil, nil
	}
	f, real, err := openPath(path)
	if errors.Is(err, fs.ErrNotExist) {
		// The runtime makes a directory there.
		real = resolve(path)
		masks, err = m.guard.check(real)
		return real, masks, err
	}
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	if masks, err = m.guard.check(real); err != nil || len(masks) > 0 || !m.root0 {
		return real, masks, err
	}
	host, err = m.bindOpened(in, index, volume, f)
	return host, nil, err
}

// subPath resolves sub inside volume without ever leaving it, makes it a directory if it is missing, and, as root,
// binds what was opened, so that a later swap of the path by a container changes nothing.
func (m *Manager) subPath(in ContainerInput, index int, v *corev1.Volume, dir, sub string) (host string, masks []string, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", nil, err
	}
	if !info.IsDir() {
		return "", nil, fmt.Errorf("volume %q is a file and has no subPath", v.Name)
	}
	f, err := openBelow(dir, sub)
	if errors.Is(err, fs.ErrNotExist) {
		if v.HostPath != nil {
			if _, err := m.guard.check(resolve(filepath.Join(dir, sub))); err != nil {
				return "", nil, err
			}
		}
		if err := makeBelow(dir, sub, info.Mode().Perm()); err != nil {
			return "", nil, err
		}
		f, err = openBelow(dir, sub)
	}
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	if v.HostPath != nil {
		real, err := realPath(f)
		if err != nil {
			return "", nil, err
		}
		if masks, err = m.guard.check(real); err != nil {
			return "", nil, err
		}
		if len(masks) > 0 {
			return real, masks, nil
		}
	}
	if !m.root0 {
		host, err = filepath.EvalSymlinks(filepath.Join(dir, sub))
	} else {
		host, err = m.bindOpened(in, index, v.Name, f)
	}
	return host, nil, err
}

// bindOpened binds an open file to a place of the pod's own.
func (m *Manager) bindOpened(in ContainerInput, index int, volume string, f *os.File) (string, error) {
	target := filepath.Join(m.PodDir(in.Pod.UID), "volume-subpaths", volume, in.Container.Name, strconv.Itoa(index))
	if _, err := os.Lstat(target); err == nil {
		if err := unmountBelow(target); err != nil {
			return "", err
		}
		if err := os.RemoveAll(target); err != nil {
			return "", err
		}
	}
	opened, err := f.Stat()
	if err != nil {
		return "", err
	}
	if opened.IsDir() {
		err = os.MkdirAll(target, 0o750)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o750); err == nil {
		err = os.WriteFile(target, nil, 0o640)
	}
	if err != nil {
		return "", err
	}
	return target, bind(f, target)
}

// makeBelow makes the directory sub of dir with the volume's own mode: whoever may write the volume may write it.
func makeBelow(dir, sub string, perm fs.FileMode) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(sub, 0o750); err != nil {
		return err
	}
	return root.Chmod(sub, perm)
}

// messageFile makes a new file that the container writes its last words to.
func (m *Manager) messageFile(in ContainerInput) (string, error) {
	dir := filepath.Join(m.PodDir(in.Pod.UID), "containers", in.Container.Name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("make termination message file of container %s: %w", in.Container.Name, err)
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	file := filepath.Join(dir, hex.EncodeToString(id[:]))
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		return "", fmt.Errorf("make termination message file of container %s: %w", in.Container.Name, err)
	}
	return file, os.Chmod(file, 0o666) // any user of the container may write it, whatever the umask
}

// hosts is the pod's /etc/hosts.
func hosts(in ContainerInput) ([]byte, error) {
	var b bytes.Buffer
	if in.Pod.Spec.HostNetwork {
		host, err := os.ReadFile("/etc/hosts")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read hosts file: %w", err)
		}
		b.WriteString("# Kubernetes-managed hosts file (host network).\n")
		b.Write(host)
	} else {
		b.WriteString("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
		for _, ip := range in.PodIPs {
			if in.Domain != "" {
				fmt.Fprintf(&b, "%s\t%s.%s\t%s\n", ip, in.Host, in.Domain, in.Host)
			} else {
				fmt.Fprintf(&b, "%s\t%s\n", ip, in.Host)
			}
		}
	}
	if len(in.Pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
		for _, alias := range in.Pod.Spec.HostAliases {
			fmt.Fprintf(&b, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
		}
	}
	return b.Bytes(), nil
}
