package volume

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	storagevolume "k8s.io/component-helpers/storage/volume"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/sdk/localvolumes"
)

// Claims reads what a pod's claims are bound to.
type Claims interface {
	Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error)
	Volume(ctx context.Context, name string) (*corev1.PersistentVolume, error)
}

// localVolumes is where it is written down which local volumes a pod has, so that it is known after a restart: a
// directory each, with the volume's name, in the pod's own.
const localVolumes = "kubernetes.io~local-volume"

// groupedVolumes is where it is written down which volumes of a pod have its fsGroup: a directory each, with the name
// that the pod has for the volume. After a restart the modes that containers chose since then stay.
const groupedVolumes = "kubernetes.io~fsgroup"

// usedVolumes is where it is written down what the claims of a pod turned out to be, a directory each, so that a volume
// in use is known after a restart.
const usedVolumes = "kubernetes.io~used-volume"

// protectionFinalizer keeps a claim while pods use it.
const protectionFinalizer = "kubernetes.io/pvc-protection"

// backing is what a claim of a pod turned out to be.
type backing struct {
	hostPath *corev1.HostPathVolumeSource // a path of the machine, or
	local    string                       // a volume of the node's own store
	exists   bool                         // the path is never made here
}

// id is a name for what is behind a claim, the same for all pods that have it.
func (b backing) id() string {
	what := "local " + b.local
	if b.local == "" {
		what = "path " + filepath.Clean(b.hostPath.Path)
	}
	sum := sha256.Sum256([]byte(what))
	return hex.EncodeToString(sum[:])
}

func (m *Manager) backed(uid types.UID, volume string) (backing, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, there := m.backings[uid][volume]
	return b, there
}

// claimed says whether a volume is a claim's, or one that is made into a claim.
func claimed(v *corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }

// seen is the volume that containers see behind a volume of the pod: for a claim, that of its PersistentVolume.
func (m *Manager) seen(pod *corev1.Pod, v *corev1.Volume) *corev1.Volume {
	if b, there := m.backed(pod.UID, v.Name); there && claimed(v) && b.hostPath != nil {
		return &corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{HostPath: b.hostPath}}
	}
	return v
}

// claim mounts the volume that a claim is bound to. It is looked up once in a pod's life: a binding is for good.
func (m *Manager) claim(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	if b, there := m.backed(pod.UID, v.Name); there {
		return m.show(pod, b)
	}
	pv, err := m.bound(ctx, pod, v)
	if err != nil {
		return err
	}
	b, err := m.source(pv)
	if err != nil {
		return err
	}
	// Before the pod is noted as one that has the volume: the pod is not of a former release.
	if err := os.MkdirAll(m.usedDir(pod.UID), 0o750); err != nil {
		return err
	}
	if err := m.show(pod, b); err != nil {
		return err
	}
	// As the kubelet: hostPath volumes keep their owner.
	if group := fsGroup(pod); group != nil && pv.Spec.Local != nil && m.root0 && !readOnly(v) {
		err = m.give(ctx, pod, v, pv.Name, b, *group)
	} else {
		err = m.use(pod.UID, b)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.backings[pod.UID] == nil {
		m.backings[pod.UID] = map[string]backing{}
	}
	m.backings[pod.UID][v.Name] = b
	return nil
}

// bound reads the volume of a claim, and checks that each names the other.
func (m *Manager) bound(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (*corev1.PersistentVolume, error) {
	if m.deps.Claims == nil {
		return nil, errors.New("this node agent reads no claims")
	}
	var name string
	if v.Ephemeral != nil {
		name = ephemeral.VolumeClaimName(pod, v)
	} else {
		name = v.PersistentVolumeClaim.ClaimName
	}
	processing := func(err error) error { return fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, err) }
	claim, err := m.deps.Claims.Claim(ctx, pod.Namespace, name)
	if err != nil {
		return nil, processing(fmt.Errorf("failed to fetch PVC from API server: %w", err))
	}
	switch {
	// A protected claim stays until its pods are gone: those that run are mounted again after a restart.
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, protectionFinalizer):
		return nil, processing(errors.New("PVC is being deleted"))
	case claim.Status.Phase != corev1.ClaimBound:
		return nil, processing(errors.New("PVC is not bound"))
	case claim.Spec.VolumeName == "":
		return nil, processing(errors.New("PVC has empty pvc.Spec.VolumeName"))
	}
	if v.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return nil, err
		}
	}
	pv, err := m.deps.Claims.Volume(ctx, claim.Spec.VolumeName)
	if err != nil {
		return nil, processing(fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err))
	}
	switch ref := pv.Spec.ClaimRef; {
	case ref == nil:
		return nil, processing(fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", pv.Name))
	case ref.UID != claim.UID:
		return nil, processing(fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s", pv.Name, ref.UID, claim.UID))
	case pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock:
		return nil, fmt.Errorf("PV %s has volumeMode Block: this release of the node agent mounts file systems only", pv.Name)
	}
	if err := storagevolume.CheckNodeAffinity(pv, m.deps.NodeLabels()); err != nil {
		return nil, fmt.Errorf("storage node affinity check failed for PV %s: %w", pv.Name, err)
	}
	return pv, nil
}

// source says what of this machine a PersistentVolume is. One of the node's own store is known by its name; its path
// is looked at only to see that it means this store.
func (m *Manager) source(pv *corev1.PersistentVolume) (backing, error) {
	switch {
	case pv.Spec.HostPath != nil:
		return backing{hostPath: pv.Spec.HostPath}, nil
	case pv.Spec.Local == nil:
		return backing{}, fmt.Errorf("PV %s: this release of the node agent mounts hostPath and local volumes of claims only", pv.Name)
	case pv.Annotations[storagevolume.AnnDynamicallyProvisioned] == localvolumes.Provisioner &&
		localvolumes.Valid(pv.Name) && pv.Spec.Local.Path == m.local.Path(pv.Name):
		return backing{local: pv.Name}, nil
	}
	return backing{hostPath: &corev1.HostPathVolumeSource{Path: pv.Spec.Local.Path}, exists: true}, nil
}

// show makes what is behind a claim ready for containers.
func (m *Manager) show(pod *corev1.Pod, b backing) error {
	if b.local != "" {
		return m.local.Make(b.local, func() error {
			return os.MkdirAll(filepath.Join(m.PodDir(pod.UID), "volumes", localVolumes, b.local), 0o750)
		})
	}
	if _, err := m.guard.check(resolve(b.hostPath.Path)); err != nil {
		return err
	}
	if b.exists {
		if _, err := os.Stat(b.hostPath.Path); err != nil {
			return fmt.Errorf("path %q does not exist: %w", b.hostPath.Path, err)
		}
	}
	return checkHostPath(b.hostPath)
}

// RemoveLocalVolume deletes a volume of the node's own store, by name, unless a pod has it. Errors are those of
// localvolume.Store.Remove.
func (m *Manager) RemoveLocalVolume(ctx context.Context, name string) error {
	return m.local.Remove(ctx, name, func() (string, error) { return m.userOf(name) })
}

// userOf is the UID of a pod that has a local volume.
func (m *Manager) userOf(name string) (string, error) {
	uids, err := m.Pods()
	if err != nil {
		return "", err
	}
	for _, uid := range uids {
		_, err := os.Lstat(filepath.Join(m.PodDir(uid), "volumes", localVolumes, name))
		if err == nil {
			return string(uid), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

// readOnly says whether all containers of a pod get a claim's volume read only.
func readOnly(v *corev1.Volume) bool {
	return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
}

// give gives a volume to a group and writes down that the pod uses it. Of pods that mount a volume at once, each waits for
// the one before: who comes second finds it in use.
func (m *Manager) give(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, name string, b backing, gid int64) error {
	unlock, err := m.giving.lock(ctx, b.id())
	if err != nil {
		return fmt.Errorf("applyFSGroup failed for vol %s: another pod of this node is given it: %w", name, err)
	}
	defer unlock()
	if err := m.ownOnce(ctx, pod, v, b, gid); err != nil {
		return fmt.Errorf("applyFSGroup failed for vol %s: %w", name, err)
	}
	return m.use(pod.UID, b)
}

// ownOnce gives a volume to a group, once in a pod's life.
func (m *Manager) ownOnce(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, b backing, gid int64) error {
	done := filepath.Join(m.PodDir(pod.UID), "volumes", groupedVolumes, v.Name)
	if _, err := os.Lstat(done); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := m.own(ctx, pod, b, gid); err != nil {
		return err
	}
	return os.MkdirAll(done, 0o750)
}

// own gives a volume to a group, once for the pods that have it at a time.
func (m *Manager) own(ctx context.Context, pod *corev1.Pod, b backing, gid int64) error {
	if shared, err := m.shared(pod.UID, b); shared || err != nil {
		return err
	}
	var path string
	allowed := func(string) error { return nil }
	if b.local != "" {
		path = m.local.Path(b.local)
	} else {
		path, allowed = b.hostPath.Path, m.givable
	}
	policy := pod.Spec.SecurityContext.FSGroupChangePolicy
	left, err := m.giveTree(ctx, path, gid, policy != nil && *policy == corev1.FSGroupChangeOnRootMismatch, allowed)
	if left.count > 0 {
		m.deps.Logger.Warn("files of a volume do not have all that fsGroup asks for", "pod", container.Format(pod), "path", path, "group", gid, "files", left.count, "first", left.first)
	}
	return err
}

// givable refuses a real path that is, is inside or holds a directory of the kernel.
func (m *Manager) givable(real string) error {
	masks, err := m.guard.check(real)
	if err == nil && len(masks) > 0 {
		err = fmt.Errorf("path %s holds the kernel's own directories, which are given to no group", real)
	}
	return err
}

// usedDir is where the volumes are that a pod uses.
func (m *Manager) usedDir(uid types.UID) string {
	return filepath.Join(m.PodDir(uid), "volumes", usedVolumes)
}

// use writes down that a pod uses a volume.
func (m *Manager) use(uid types.UID, b backing) error {
	return os.MkdirAll(filepath.Join(m.usedDir(uid), b.id()), 0o750)
}

// shared says whether another pod has the same volume already, also one that has not been mounted again after a restart.
func (m *Manager) shared(than types.UID, b backing) (bool, error) {
	uids, err := m.Pods()
	if err != nil {
		return false, err
	}
	for _, uid := range uids {
		if uid == than {
			continue
		}
		_, err := os.Lstat(filepath.Join(m.usedDir(uid), b.id()))
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}
