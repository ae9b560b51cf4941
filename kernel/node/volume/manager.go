package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/localvolume"
)

// Deps are what volumes are made with; all but Guarded and Claims are required.
type Deps struct {
	// Source reads ConfigMaps and Secrets in the name of a pod.
	Source func(uid types.UID) container.Source
	// Tokens asks for service account tokens.
	Tokens TokenRequester
	// Addresses and Allocatable feed the downward API.
	Addresses   func(pod *corev1.Pod) container.Addresses
	Allocatable func() corev1.ResourceList
	// Claims reads what pods' claims are bound to, NodeLabels the labels that a volume's node affinity is for.
	// Without Claims no claim is mounted.
	Claims     Claims
	NodeLabels func() map[string]string
	// Guarded are directories of the host that no hostPath volume may show.
	Guarded []string
	Logger  *slog.Logger
}

// Manager makes and removes the volumes of a node's pods.
type Manager struct {
	root   string // holds pods/
	deps   Deps
	tokens *tokens
	guard  guard
	root0  bool // running as root: tmpfs, ownership and bind mounts are possible
	// swappable has it said once that tmpfs may be swapped out.
	swappable sync.Once

	local *localvolume.Store

	// giving are locks of volumes that are given to a group, by backing.id.
	giving   named
	giveTree func(ctx context.Context, dir string, gid int64, onMismatch bool, allowed func(real string) error) (leftovers, error)
	// upgraded says that the pods of a former release have what later releases write down.
	upgrading sync.Mutex
	upgraded  bool

	mu       sync.Mutex
	locks    map[types.UID]*sync.Mutex
	backings map[types.UID]map[string]backing // by volume of the pod
}

// New keeps volumes below root/pods.
func New(root string, deps Deps) *Manager {
	return &Manager{
		root: root, deps: deps, guard: newGuard(deps.Guarded), root0: os.Geteuid() == 0, locks: map[types.UID]*sync.Mutex{},
		local: localvolume.New(LocalVolumes(root)), backings: map[types.UID]map[string]backing{}, giveTree: giveTree,
		tokens: &tokens{request: deps.Tokens, now: time.Now, all: map[tokenKey]token{}},
	}
}

// LocalVolumes is the directory of the volumes that a node with that root gives to claims; empty where the working
// directory has no path.
func LocalVolumes(root string) string {
	dir, err := filepath.Abs(filepath.Join(root, "local-volumes"))
	if err != nil {
		return ""
	}
	return dir
}

// PodDir is the directory of one pod.
func (m *Manager) PodDir(uid types.UID) string { return filepath.Join(m.root, "pods", string(uid)) }

// Path is where a volume of a pod is on the host.
func (m *Manager) Path(pod *corev1.Pod, v *corev1.Volume) string {
	if v.HostPath != nil {
		return v.HostPath.Path
	}
	if b, there := m.backed(pod.UID, v.Name); there && claimed(v) {
		if b.local != "" {
			return m.local.Path(b.local)
		}
		return b.hostPath.Path
	}
	return filepath.Join(m.PodDir(pod.UID), "volumes", "kubernetes.io~"+typeName(v), v.Name)
}

func typeName(v *corev1.Volume) string {
	switch {
	case v.EmptyDir != nil:
		return "empty-dir"
	case v.ConfigMap != nil:
		return "configmap"
	case v.Secret != nil:
		return "secret"
	case v.DownwardAPI != nil:
		return "downward-api"
	case v.Projected != nil:
		return "projected"
	}
	return "unsupported"
}

// SetUpError is a volume that could not be made; its text is the FailedMount event's.
type SetUpError struct {
	Volume string
	Err    error
}

func (e *SetUpError) Error() string {
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.Volume, e.Err)
}

func (e *SetUpError) Unwrap() error { return e.Err }

func (m *Manager) lock(uid types.UID) func() {
	m.mu.Lock()
	l := m.locks[uid]
	if l == nil {
		l = &sync.Mutex{}
		m.locks[uid] = l
	}
	m.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// Mount makes the pod's volumes, or brings the object-backed ones up to date. Errors are joined SetUpErrors. Calling
// it again is cheap when nothing changed.
func (m *Manager) Mount(ctx context.Context, pod *corev1.Pod) error {
	if err := m.upgrade(pod); err != nil {
		return err
	}
	defer m.lock(pod.UID)()
	for _, dir := range []string{"", "volumes", "containers"} {
		if err := os.MkdirAll(filepath.Join(m.PodDir(pod.UID), dir), 0o750); err != nil {
			return fmt.Errorf("make directories of pod %s: %w", container.Format(pod), err)
		}
	}
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if err := m.mount(ctx, pod, v); err != nil {
			errs = append(errs, &SetUpError{v.Name, err})
		}
	}
	return errors.Join(errs...)
}

func (m *Manager) mount(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	dir := m.Path(pod, v)
	switch {
	case v.HostPath != nil:
		if _, err := m.guard.check(resolve(v.HostPath.Path)); err != nil {
			return err
		}
		return checkHostPath(v.HostPath)
	case v.Image != nil:
		return nil // the runtime mounts it into each container
	case claimed(v):
		return m.claim(ctx, pod, v)
	case v.EmptyDir != nil:
		return m.emptyDir(pod, v, dir)
	case v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil, v.Projected != nil:
		files, err := m.payload(ctx, pod, v)
		if err != nil {
			return err
		}
		if v.ConfigMap != nil {
			err = makeDir(dir, 0o777)
		} else {
			err = m.memoryDir(dir, 0, 0o777)
		}
		if err != nil {
			return err
		}
		group := fsGroup(pod)
		_, err = writeAtomic(dir, files, func(next string) error {
			if group == nil || !m.root0 {
				return nil
			}
			return setGroup(next, *group)
		})
		return err
	}
	return fmt.Errorf("%s: this release of the node agent mounts emptyDir, hostPath, configMap, secret, downwardAPI, projected and image volumes, and claims only", describe(v))
}

// describe names the kind of a volume that is refused.
func describe(v *corev1.Volume) string {
	switch {
	case v.CSI != nil:
		return fmt.Sprintf("csi driver %q", v.CSI.Driver)
	case v.NFS != nil:
		return "nfs"
	}
	return "unsupported volume type"
}

func (m *Manager) emptyDir(pod *corev1.Pod, v *corev1.Volume, dir string) error {
	switch medium := v.EmptyDir.Medium; medium {
	case corev1.StorageMediumDefault:
		if err := makeDir(dir, 0o777); err != nil {
			return err
		}
	case corev1.StorageMediumMemory:
		if err := m.memoryDir(dir, m.memorySize(pod, v.EmptyDir), 0o777); err != nil {
			return err
		}
	default:
		if !isHugePages(medium) {
			return fmt.Errorf("unknown storage medium %q", medium)
		}
		if err := m.hugePagesDir(pod, medium, dir); err != nil {
			return err
		}
	}
	if group := fsGroup(pod); group != nil && m.root0 {
		return setRootGroup(dir, *group)
	}
	return nil
}

// memorySize is how much a volume in memory may hold: its own limit, that of the pod, or what the node gives to pods,
// whichever is least; 0 where nothing is known.
func (m *Manager) memorySize(pod *corev1.Pod, v *corev1.EmptyDirVolumeSource) int64 {
	var size int64
	least := func(limit int64) {
		if limit > 0 && (size == 0 || limit < size) {
			size = limit
		}
	}
	allocatable := m.deps.Allocatable()
	least(allocatable.Memory().Value())
	least(container.PodResources(pod).MemoryLimitInBytes)
	if v.SizeLimit != nil {
		least(v.SizeLimit.Value())
	}
	return size
}

// makeDir makes a directory with exactly that mode, whatever the umask.
func makeDir(dir string, perm fs.FileMode) error {
	err := os.MkdirAll(filepath.Dir(dir), 0o750)
	if err != nil {
		return err
	}
	if err = os.Mkdir(dir, perm); errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(dir, perm)
}

// setGroup gives a tree that nobody else can change yet to a group that may read what the owner may read, and new
// files of its directories too.
func setGroup(root string, gid int64) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Lchown(path, -1, int(gid)); err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil
		}
		perm := info.Mode().Perm() | 0o440
		if info.IsDir() {
			perm |= 0o110 | fs.ModeSetgid
		}
		return os.Chmod(path, perm)
	})
}

// Pods lists the pods that have a directory.
func (m *Manager) Pods() ([]types.UID, error) {
	entries, err := os.ReadDir(filepath.Join(m.root, "pods"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list pod directories: %w", err)
	}
	var uids []types.UID
	for _, e := range entries {
		if e.IsDir() {
			uids = append(uids, types.UID(e.Name()))
		}
	}
	return uids, nil
}

// Unmount removes everything of a pod: mounts first, then files. A mount that stays keeps the files.
func (m *Manager) Unmount(uid types.UID) error {
	if uid == "" || strings.ContainsAny(string(uid), "/\x00") || uid == "." || uid == ".." {
		return fmt.Errorf("remove volumes of pod %q: not a pod UID", uid)
	}
	defer m.lock(uid)()
	dir := m.PodDir(uid)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		m.forget(uid)
		return nil
	}
	if err := unmountBelow(dir); err != nil {
		return fmt.Errorf("remove volumes of pod %s: %w", uid, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove volumes of pod %s: %w", uid, err)
	}
	m.forget(uid)
	return nil
}

func (m *Manager) forget(uid types.UID) {
	m.tokens.forget(uid)
	m.mu.Lock()
	delete(m.locks, uid)
	delete(m.backings, uid)
	m.mu.Unlock()
}
