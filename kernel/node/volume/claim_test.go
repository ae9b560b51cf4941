package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagevolume "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/node/localvolume"
	"pintle.dev/pintle/sdk/localvolumes"
)

const localName = "pvc-0a1b2c3d-0000-4000-8000-00000000beef"

// bindings are claims and volumes by name.
type bindings struct {
	claims  map[string]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
	reads   int
}

func (b *bindings) Claim(_ context.Context, _, name string) (*corev1.PersistentVolumeClaim, error) {
	b.reads++
	if c := b.claims[name]; c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), name)
}

func (b *bindings) Volume(_ context.Context, name string) (*corev1.PersistentVolume, error) {
	if v := b.volumes[name]; v != nil {
		return v, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumes"), name)
}

// claiming is a pod with the claim "data", bound to pv, and a manager that knows both.
func claiming(t *testing.T, pv *corev1.PersistentVolume) (*Manager, *corev1.Pod, *bindings) {
	t.Helper()
	m := manager(t, &source{})
	m.deps.NodeLabels = func() map[string]string { return map[string]string{corev1.LabelHostname: "n1"} }
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "uid-data"}}
	c.Spec.VolumeName, c.Status.Phase = pv.Name, corev1.ClaimBound
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "data", UID: c.UID}
	known := &bindings{claims: map[string]*corev1.PersistentVolumeClaim{"data": c}, volumes: map[string]*corev1.PersistentVolume{pv.Name: pv}}
	m.deps.Claims = known
	p := pod(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}})
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/data"}}
	return m, p, known
}

// localPV is a volume of the store of a manager: its path is set when there is one.
func localPV() *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: localName, Annotations: map[string]string{storagevolume.AnnDynamicallyProvisioned: localvolumes.Provisioner}}}
	pv.Spec.Local = &corev1.LocalVolumeSource{}
	return pv
}

func hostPV(path string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
	pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
	return pv
}

func (m *Manager) hostOf(t *testing.T, p *corev1.Pod) (host string, readOnly bool, err error) {
	t.Helper()
	mounts, err := m.Mounts(ContainerInput{Pod: p, Container: &p.Spec.Containers[0]})
	if err != nil {
		return "", false, err
	}
	for _, mount := range mounts {
		if mount.ContainerPath == "/data" {
			return mount.HostPath, mount.Readonly, nil
		}
	}
	t.Fatalf("%v", mounts)
	return "", false, nil
}

// A volume of the node's store is made, outlives the pod's directory, and is removed by name when no pod has it.
func TestLocalVolumeOfClaim(t *testing.T) {
	m, p, known := claiming(t, localPV())
	known.volumes[localName].Spec.Local.Path = m.local.Path(localName)
	for range 3 {
		if err := m.Mount(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if known.reads != 1 {
		t.Errorf("the claim was read %d times", known.reads)
	}
	host, readOnly, err := m.hostOf(t, p)
	if err != nil || host != m.local.Path(localName) || readOnly {
		t.Fatalf("%s, read only %v, %v", host, readOnly, err)
	}
	if info, err := os.Stat(host); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("%v, %v", info, err)
	}
	file := filepath.Join(host, "file")
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	var used *localvolume.InUseError
	// A manager after a restart knows it from the disk.
	again := New(m.root, m.deps)
	for _, m := range []*Manager{m, again} {
		if err := m.RemoveLocalVolume(t.Context(), localName); !errors.As(err, &used) || used.User != "u" {
			t.Errorf("removed in use: %v", err)
		}
	}
	if err := m.Unmount("u"); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "data" {
		t.Fatalf("the data went with the pod: %v", err)
	}
	if err := m.RemoveLocalVolume(t.Context(), localName); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(host); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
}

// What a claim is bound to is checked before anything is shown; none of these is.
func TestClaimsRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(m *Manager, p *corev1.Pod, c *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume)
		want   string
	}{
		{"no such claim", func(_ *Manager, p *corev1.Pod, _ *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "other"
		}, "error processing PVC ns/other: failed to fetch PVC from API server"},
		{"unbound", func(_ *Manager, _ *corev1.Pod, c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.Status.Phase = corev1.ClaimPending
		}, "error processing PVC ns/data: PVC is not bound"},
		{"bound to nothing", func(_ *Manager, _ *corev1.Pod, c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.Spec.VolumeName = ""
		}, "error processing PVC ns/data: PVC has empty pvc.Spec.VolumeName"},
		{"being deleted", func(_ *Manager, _ *corev1.Pod, c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.DeletionTimestamp = ptr.To(metav1.Now())
		}, "error processing PVC ns/data: PVC is being deleted"},
		{"no such volume", func(_ *Manager, _ *corev1.Pod, c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.Spec.VolumeName = "other"
		}, "error processing PVC ns/data: failed to fetch PV other from API server"},
		{"the volume is another's", func(_ *Manager, _ *corev1.Pod, _ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
			pv.Spec.ClaimRef.UID = "before"
		}, "error processing PVC ns/data: found PV object by-hand but its pv.Spec.ClaimRef.UID before does not point to claim.UID uid-data"},
		{"the volume is nobody's", func(_ *Manager, _ *corev1.Pod, _ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
			pv.Spec.ClaimRef = nil
		}, "error processing PVC ns/data: found PV object by-hand but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"},
		{"on another node", func(_ *Manager, _ *corev1.Pod, _ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n2"}}}}}}}
		}, "storage node affinity check failed"},
		{"block", func(_ *Manager, _ *corev1.Pod, _ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
			pv.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		}, "has volumeMode Block"},
		{"of a driver", func(_ *Manager, _ *corev1.Pod, _ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
			pv.Spec.HostPath, pv.Spec.CSI = nil, &corev1.CSIPersistentVolumeSource{Driver: "x"}
		}, "mounts hostPath and local volumes of claims only"},
		{"the kernel's keys", func(m *Manager, _ *corev1.Pod, _ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
			pv.Spec.HostPath.Path = filepath.Join(m.guard.dirs[0], "pki")
		}, "is the kernel's own"},
		{"the kernel's keys as local", func(m *Manager, _ *corev1.Pod, _ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
			pv.Spec.HostPath, pv.Spec.Local = nil, &corev1.LocalVolumeSource{Path: filepath.Join(m.guard.dirs[0], "pki")}
		}, "is the kernel's own"},
		{"all volumes of the node", func(m *Manager, _ *corev1.Pod, _ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
			*pv = *localPV()
			pv.Name, pv.Spec.Local.Path = "by-hand", m.local.Root()
			pv.Spec.ClaimRef = &corev1.ObjectReference{UID: "uid-data"}
		}, "is the kernel's own"},
		{"another's volume", func(m *Manager, _ *corev1.Pod, _ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
			*pv = *localPV()
			pv.Name, pv.Spec.Local.Path = "by-hand", m.local.Path(localName)
			pv.Spec.ClaimRef = &corev1.ObjectReference{UID: "uid-data"}
		}, "is the kernel's own"},
		{"a local path that is not there", func(_ *Manager, _ *corev1.Pod, _ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
			pv.Spec.HostPath, pv.Spec.Local = nil, &corev1.LocalVolumeSource{Path: "/nowhere/at/all"}
		}, `path "/nowhere/at/all" does not exist`},
		{"another pod's ephemeral claim", func(_ *Manager, p *corev1.Pod, c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
			p.Name, p.Spec.Volumes[0].Name = "da", "ta"
			c.Name = "da-ta"
		}, "failed to fetch PVC"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, p, known := claiming(t, hostPV(t.TempDir()))
			m.guard = newGuard([]string{filepath.Dir(m.root)})
			if err := os.MkdirAll(m.local.Path(localName), 0o700); err != nil {
				t.Fatal(err)
			}
			tt.change(m, p, known.claims["data"], known.volumes["by-hand"])
			var setUp *SetUpError
			if err := m.Mount(t.Context(), p); !errors.As(err, &setUp) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			p.Spec.Containers[0].VolumeMounts[0].Name = p.Spec.Volumes[0].Name
			if host, _, err := m.hostOf(t, p); err == nil {
				t.Errorf("a container gets %s", host)
			}
		})
	}
	// A claim that its pods keep while it is being deleted is mounted, so that they go on after a restart.
	m, p, known := claiming(t, hostPV(t.TempDir()))
	known.claims["data"].DeletionTimestamp = ptr.To(metav1.Now())
	known.claims["data"].Finalizers = []string{"other", "kubernetes.io/pvc-protection"}
	if err := m.Mount(t.Context(), p); err != nil {
		t.Errorf("protected: %v", err)
	}
	// One whose owner is another pod is not the pod's, though it has the name.
	m, p, known = claiming(t, hostPV(t.TempDir()))
	p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
	known.claims["p-v"] = known.claims["data"]
	if err := m.Mount(t.Context(), p); err == nil || !strings.Contains(err.Error(), "was not created for pod") {
		t.Errorf("ephemeral: %v", err)
	}
	known.claims["p-v"].OwnerReferences = []metav1.OwnerReference{{UID: p.UID, Controller: ptr.To(true)}}
	if err := m.Mount(t.Context(), p); err != nil {
		t.Errorf("its own: %v", err)
	}
}

// A claim's hostPath is shown as a pod's own is, with subPath, and read only where the pod says so.
func TestHostPathOfClaim(t *testing.T) {
	dir := t.TempDir()
	m, p, known := claiming(t, hostPV(filepath.Join(dir, "made")))
	known.volumes["by-hand"].Spec.HostPath.Type = ptr.To(corev1.HostPathDirectoryOrCreate)
	p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](4242)}
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	host, readOnly, err := m.hostOf(t, p)
	if err != nil || host != filepath.Join(dir, "made") || !readOnly {
		t.Errorf("%s, read only %v, %v", host, readOnly, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(host, &st); err != nil || st.Gid == 4242 {
		t.Errorf("group %d of a hostPath, %v", st.Gid, err)
	}
	if err := os.Symlink("/etc", filepath.Join(host, "out")); err != nil {
		t.Fatal(err)
	}
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "out"
	if host, _, err := m.hostOf(t, p); err == nil {
		t.Errorf("a link leads a subPath to %s", host)
	}
}

// fsGroup is given to a local volume and what is in it, and to nothing that a link in it leads to.
func TestGroupOfLocalVolume(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files away needs root")
	}
	m, p, known := claiming(t, localPV())
	known.volumes[localName].Spec.Local.Path = m.local.Path(localName)
	path := m.local.Path(localName)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.MkdirAll(filepath.Join(path, "sub"), 0o700), os.WriteFile(filepath.Join(path, "sub/file"), nil, 0o600), os.Chmod(filepath.Join(path, "sub/file"), 0o640|fs.ModeSetuid),
		os.MkdirAll(outside, 0o700), os.Symlink(outside, filepath.Join(path, "link"))); err != nil {
		t.Fatal(err)
	}
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](4242)}
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{path: 0o2770, filepath.Join(path, "sub"): 0o2770, filepath.Join(path, "sub/file"): 0o4660} {
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil || st.Gid != 4242 || st.Mode&0o7777 != want {
			t.Errorf("%s: group %d, mode %o, want %o, %v", name, st.Gid, st.Mode&0o7777, want, err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(outside, &st); err != nil || st.Gid == 4242 || st.Mode&0o7777 != 0o700 {
		t.Errorf("a link was followed: group %d, mode %o, %v", st.Gid, st.Mode, err)
	}
	// Another pod beside it, and OnRootMismatch, change nothing.
	for _, what := range []string{"a second pod", "on mismatch"} {
		other := p.DeepCopy()
		if what == "a second pod" {
			other.UID = "u2"
		} else {
			other.Spec.SecurityContext.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
		}
		if other.UID == p.UID {
			if err := m.Unmount(p.UID); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(filepath.Join(path, "sub/file"), -1, 0); err != nil {
			t.Fatal(err)
		}
		if err := m.Mount(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if err := unix.Lstat(filepath.Join(path, "sub/file"), &st); err != nil || st.Gid != 0 {
			t.Errorf("%s: group %d, %v", what, st.Gid, err)
		}
		if err := m.Unmount("u2"); err != nil {
			t.Fatal(err)
		}
	}
}
