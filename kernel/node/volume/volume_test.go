package volume

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/node/container"
)

type source struct{ data map[string]string }

func (s *source) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	if name != "cm" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &corev1.ConfigMap{Data: s.data}, nil
}

func (s *source) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	if name != "sec" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &corev1.Secret{Data: map[string][]byte{"key": []byte("value")}}, nil
}

func manager(t *testing.T, src *source) *Manager {
	t.Helper()
	m := New(t.TempDir(), Deps{
		Source: func(types.UID) container.Source { return src },
		Tokens: func(_ context.Context, _, account string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			tr.Status.Token, tr.Status.ExpirationTimestamp = "token of "+account, metav1.NewTime(time.Now().Add(time.Hour))
			return tr, nil
		},
		Addresses:   func(*corev1.Pod) container.Addresses { return container.Addresses{} },
		Allocatable: func() corev1.ResourceList { return nil },
		Logger:      slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() {
		if err := m.Unmount("u"); err != nil {
			t.Error(err)
		}
	})
	return m
}

func pod(volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{ServiceAccountName: "sa", Volumes: volumes, Containers: []corev1.Container{{Name: "c"}}}}
}

func configMap(name string, optional bool, items ...corev1.KeyToPath) corev1.Volume {
	return corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items, Optional: &optional}}}
}

// TestConfigMapVolume: 002 §19, §20, SEC-4: files, modes, atomic updates through ..data, gone keys disappear.
func TestConfigMapVolume(t *testing.T) {
	src := &source{data: map[string]string{"a": "1", "b": "2"}}
	m := manager(t, src)
	p := pod(configMap("cm", false))
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	dir := m.Path(p, &p.Spec.Volumes[0])
	read := func(name string) string { data, _ := os.ReadFile(filepath.Join(dir, name)); return string(data) }
	if read("a") != "1" || read("b") != "2" {
		t.Fatal("content")
	}
	if info, err := os.Stat(filepath.Join(dir, "a")); err != nil || info.Mode().Perm() != 0o644 {
		t.Fatalf("mode %v %v", info.Mode(), err)
	}
	if link, err := os.Readlink(filepath.Join(dir, "a")); err != nil || link != "..data/a" {
		t.Fatalf("link %q %v", link, err)
	}
	first, _ := os.Readlink(filepath.Join(dir, "..data"))
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if again, _ := os.Readlink(filepath.Join(dir, "..data")); again != first {
		t.Fatal("unchanged content was written again")
	}
	src.data = map[string]string{"a": "new", "c": "3"}
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if read("a") != "new" || read("c") != "3" || read("b") != "" {
		t.Fatal("update")
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 4 { // ..data, its directory, a, c
		t.Fatalf("leftovers: %v", entries)
	}
}

// TestSetUpErrors: FailedMount's words, and volume types that are refused.
func TestSetUpErrors(t *testing.T) {
	for name, c := range map[string]struct {
		volume corev1.Volume
		want   string
	}{
		"missing object":        {configMap("none", false), `MountVolume.SetUp failed for volume "v" : configmaps "none" not found`},
		"optional object":       {configMap("none", true), ""},
		"missing key":           {configMap("cm", false, corev1.KeyToPath{Key: "zz", Path: "zz"}), "configmap references non-existent config key: zz"},
		"optional key":          {configMap("cm", true, corev1.KeyToPath{Key: "zz", Path: "zz"}), ""},
		"leaves the volume":     {configMap("cm", false, corev1.KeyToPath{Key: "a", Path: "../x"}), "must not contain '..'"},
		"claim":                 {corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}, `this node agent reads no claims`},
		"host path not there":   {hostPath("/nonexistent-path", corev1.HostPathDirectory), "hostPath type check failed: /nonexistent-path is not a directory"},
		"host path wrong type":  {hostPath("/etc", corev1.HostPathFile), "hostPath type check failed: /etc is not a file"},
		"host path right type":  {hostPath("/etc", corev1.HostPathDirectory), ""},
		"host path device":      {hostPath("/dev/null", corev1.HostPathCharDev), ""},
		"host path not a block": {hostPath("/dev/null", corev1.HostPathBlockDev), "is not a block device"},
		"medium":                {corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Tape"}}}, `unknown storage medium "Tape"`},
	} {
		t.Run(name, func(t *testing.T) {
			m := manager(t, &source{data: map[string]string{"a": "1"}})
			err := m.Mount(t.Context(), pod(c.volume))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			var setUp *SetUpError
			if err != nil && !errors.As(err, &setUp) {
				t.Fatalf("not a SetUpError: %v", err)
			}
		})
	}
}

func hostPath(p string, kind corev1.HostPathType) corev1.Volume {
	return corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: p, Type: &kind}}}
}

// TestProjected: secrets, tokens and fields in one volume; the token is the user's alone when all run as one user.
func TestProjected(t *testing.T) {
	m := manager(t, &source{data: map[string]string{"ca.crt": "CA"}})
	user := int64(1000)
	p := pod(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "sec"}, Items: []corev1.KeyToPath{{Key: "key", Path: "deep/er"}}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}},
	}}}})
	if os.Geteuid() == 0 {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &user}
	}
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	dir := m.Path(p, &p.Spec.Volumes[0])
	for name, want := range map[string]string{"token": "token of sa", "ca.crt": "CA", "deep/er": "value", "namespace": "ns"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != want {
			t.Errorf("%s: %q %v", name, data, err)
		}
	}
	if os.Geteuid() == 0 {
		if info, err := os.Stat(filepath.Join(dir, "token")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("token mode %v %v", info.Mode(), err)
		}
		if mounted, err := isMount(dir); err != nil || !mounted {
			t.Errorf("secrets are not on tmpfs: %v %v", mounted, err)
		}
	}
}

// TestTokens: a token is kept until 80 % of its life, and a valid one outlives an API that does not answer.
func TestTokens(t *testing.T) {
	now, asked, fail := time.Unix(1000, 0), 0, false
	ts := &tokens{now: func() time.Time { return now }, all: map[tokenKey]token{}, request: func(_ context.Context, _, _ string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		if fail {
			return nil, errors.New("no answer")
		}
		asked++
		if tr.Spec.BoundObjectRef == nil || tr.Spec.BoundObjectRef.UID != "u" || *tr.Spec.ExpirationSeconds != 1000 {
			t.Errorf("request %+v", tr.Spec)
		}
		tr.Status.Token, tr.Status.ExpirationTimestamp = "t", metav1.NewTime(now.Add(1000*time.Second))
		return tr, nil
	}}
	life := int64(1000)
	get := func() error {
		_, err := ts.get(t.Context(), pod(), &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &life})
		return err
	}
	for i, c := range []struct {
		at    int64
		fail  bool
		asked int
		bad   bool
	}{{0, false, 1, false}, {799, false, 1, false}, {801, true, 1, false}, {999, true, 1, false}, {1001, true, 1, true}, {1002, false, 2, false}} {
		now, fail = time.Unix(1000+c.at, 0), c.fail
		if err := get(); (err != nil) != c.bad || asked != c.asked {
			t.Fatalf("step %d: %v, asked %d", i, err, asked)
		}
	}
}

// TestSubPath: what lies in a volume can not lead a subPath out of it.
func TestSubPath(t *testing.T) {
	m := manager(t, &source{})
	p := pod(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	dir := m.Path(p, &p.Spec.Volumes[0])
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for sub, ok := range map[string]bool{"new/deep": true, "out": false, "out/passwd": false, "../..": false, "/abs": false} {
		c := &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/m", SubPath: sub}}}
		mounts, err := m.Mounts(ContainerInput{Pod: p, Container: c})
		if (err == nil) != ok {
			t.Errorf("%s: %v", sub, err)
		}
		if ok && (len(mounts) != 1 || mounts[0].ContainerPath != "/m") {
			t.Errorf("%s: %v", sub, mounts)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new/deep")); err != nil {
		t.Error(err)
	}
}

// TestSubPathPipe: a pipe that a container made neither holds the agent nor is it opened.
func TestSubPathPipe(t *testing.T) {
	m := manager(t, &source{})
	p := pod(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(m.Path(p, &p.Spec.Volumes[0]), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/m", SubPath: "pipe"}}}
	done := make(chan error, 1)
	go func() {
		_, err := m.Mounts(ContainerInput{Pod: p, Container: c})
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(2 * time.Minute):
		// Let it go, or nothing after it comes to an end.
		f, err := os.OpenFile(pipe, os.O_RDWR, 0)
		t.Fatal("the agent waits for somebody to write into the pipe", f, err)
	}
}

// TestFSGroupLeavesContainersFiles: the agent is root and does not change what containers made, which they could swap
// for a link to a file of the host between its looking and its changing.
func TestFSGroupLeavesContainersFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: ownership")
	}
	m := manager(t, &source{})
	p := pod(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	group := int64(4242)
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(m.Path(p, &p.Spec.Volumes[0]), "private")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil || st.Mode&0o777 != 0o600 || st.Gid != 1000 {
		t.Fatalf("mode %o, group %d, %v", st.Mode&0o777, st.Gid, err)
	}
}

// TestFSGroup: the pod's group owns and may write the volume.
func TestFSGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: ownership")
	}
	m := manager(t, &source{})
	p := pod(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	group := int64(4242)
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(m.Path(p, &p.Spec.Volumes[0]))
	if err != nil || info.Mode()&fs.ModeSetgid == 0 || info.Mode().Perm()&0o070 != 0o070 {
		t.Fatalf("mode %v %v", info.Mode(), err)
	}
}

func TestUnmountRefusesWhatIsNoUID(t *testing.T) {
	m := manager(t, &source{})
	for _, uid := range []types.UID{"", "..", ".", "a/b"} {
		if err := m.Unmount(uid); err == nil {
			t.Errorf("%q was accepted", uid)
		}
	}
}
