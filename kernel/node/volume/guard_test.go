package volume

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// kernelDir is a guarded directory with a key in it, and a folder beside it that pods may write.
func kernelDir(t *testing.T, m *Manager) (data, beside string) {
	t.Helper()
	top := t.TempDir()
	data, beside = filepath.Join(top, "data"), filepath.Join(top, "beside")
	for _, dir := range []string{filepath.Join(data, "pki"), beside, filepath.Join(top, "data-of-others")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(data, "pki", "ca.key"), []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.guard = newGuard([]string{data})
	return data, beside
}

// TestKernelDirectoryIsGuarded: no spelling of a path, link or subPath leads a hostPath volume into the kernel's
// directory, and nothing is made in it.
func TestKernelDirectoryIsGuarded(t *testing.T) {
	m := manager(t, &source{})
	data, beside := kernelDir(t, m)
	link := func(name, to string) string {
		path := filepath.Join(beside, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const refused = "is inside"
	for name, c := range map[string]struct {
		path, sub string
		kind      corev1.HostPathType
		want      string // of the error
		masks     []string
	}{
		"itself":                       {path: data, want: refused},
		"below":                        {path: data + "/pki/ca.key", want: refused},
		"by dots":                      {path: beside + "/../data/pki", want: refused},
		"by slashes":                   {path: data + "//pki/", want: refused},
		"by link":                      {path: link("l1", data+"/pki"), want: refused},
		"by relative link":             {path: link("l2", "../data"), want: refused},
		"by link above":                {path: link("l3", "..") + "/data/pki", want: refused},
		"by link to a link":            {path: link("l4", "l1"), want: refused},
		"by /proc/self/root":           {path: "/proc/self/root" + data, want: refused},
		"made as a directory":          {path: data + "/new/dir", kind: corev1.HostPathDirectoryOrCreate, want: refused},
		"made as a file":               {path: data + "/new", kind: corev1.HostPathFileOrCreate, want: refused},
		"made by link":                 {path: link("l5", data+"/new"), kind: corev1.HostPathFileOrCreate, want: refused},
		"not there, made by runtime":   {path: data + "/new", want: refused},
		"subPath":                      {path: filepath.Dir(data), sub: "data/pki", want: refused},
		"subPath that would be made":   {path: filepath.Dir(data), sub: "data/new", want: refused},
		"parent":                       {path: filepath.Dir(data), masks: []string{"data"}},
		"root":                         {path: "/", masks: []string{data[1:]}},
		"subPath to a parent":          {path: filepath.Dir(filepath.Dir(data)), sub: filepath.Base(filepath.Dir(data)), masks: []string{"data"}},
		"beside":                       {path: beside},
		"beside, with a name as begin": {path: data + "-of-others"},
	} {
		t.Run(name, func(t *testing.T) {
			v := hostPath(c.path, c.kind)
			p := pod(v)
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/host", SubPath: c.sub}}
			err := m.Mount(t.Context(), p)
			var mounts []*runtimeapi.Mount
			if err == nil {
				mounts, err = m.Mounts(ContainerInput{Pod: p, Container: &p.Spec.Containers[0]})
			}
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v, %v", mounts, err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				var masks []string
				for _, mount := range mounts[1:] {
					masks = append(masks, strings.TrimPrefix(mount.ContainerPath, "/host/"))
					if entries, err := os.ReadDir(mount.HostPath); err != nil || len(entries) > 0 || !mount.Readonly {
						t.Errorf("the mask %v shows %v, %v", mount, entries, err)
					}
				}
				if !slices.Equal(masks, c.masks) {
					t.Errorf("masks %v, want %v", masks, c.masks)
				}
			}
			if _, err := os.Lstat(data + "/new"); err == nil {
				t.Error("something was made in the kernel's directory")
			}
		})
	}
	t.Run("propagation", func(t *testing.T) {
		both := corev1.MountPropagationBidirectional
		p := pod(hostPath("/", ""))
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/host", MountPropagation: &both}}
		if mounts, err := m.Mounts(ContainerInput{Pod: p, Container: &p.Spec.Containers[0]}); err == nil {
			t.Errorf("a mask would reach the host: %v", mounts)
		}
	})
}

// TestHostPathIsWhatWasLookedAt: another pod that swaps the path after it was looked at does not lead the mount into the
// kernel's directory.
func TestHostPathIsWhatWasLookedAt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	m := manager(t, &source{})
	data, beside := kernelDir(t, m)
	path := filepath.Join(beside, "mine")
	if err := os.MkdirAll(filepath.Join(path, "own"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := pod(hostPath(path, ""))
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/host"}}
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	mounts, err := m.Mounts(ContainerInput{Pod: p, Container: &p.Spec.Containers[0]})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(data, "pki"), path); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(mounts[0].HostPath)
	if err != nil || len(entries) != 1 || entries[0].Name() != "own" {
		t.Errorf("the container sees %v, %v", entries, err)
	}
}

// TestHostPathModes: VOL-4: what is made has mode 0755 or 0644, whatever the umask.
func TestHostPathModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	for path, c := range map[string]struct {
		kind corev1.HostPathType
		want os.FileMode
	}{
		"a/b": {corev1.HostPathDirectoryOrCreate, os.ModeDir | 0o755},
		"f":   {corev1.HostPathFileOrCreate, 0o644},
	} {
		v := hostPath(filepath.Join(dir, path), c.kind)
		if err := checkHostPath(v.HostPath); err != nil {
			t.Fatal(err)
		}
		for at := v.HostPath.Path; at != dir; at = filepath.Dir(at) {
			if info, err := os.Stat(at); err != nil || info.Mode() != c.want {
				t.Errorf("%s: %v, %v; want %v", at, info.Mode(), err, c.want)
			}
		}
	}
}

// TestMemorySize: a volume in memory never holds more than its own limit, its pod's, or what the node gives to pods.
func TestMemorySize(t *testing.T) {
	m := manager(t, &source{})
	m.deps.Allocatable = func() corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	for _, c := range []struct {
		own, pod, want string
	}{{"", "", "1Gi"}, {"2Gi", "", "1Gi"}, {"10Mi", "", "10Mi"}, {"", "100Mi", "100Mi"}, {"10Mi", "100Mi", "10Mi"}, {"200Mi", "100Mi", "100Mi"}} {
		v, p := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}, pod()
		if c.own != "" {
			q := resource.MustParse(c.own)
			v.SizeLimit = &q
		}
		if c.pod != "" {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(c.pod)}
		}
		if want, got := resource.MustParse(c.want), m.memorySize(p, v); got != want.Value() {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestReadFile: what a container puts in the place of a file neither holds the agent up nor leads it elsewhere.
func TestReadFile(t *testing.T) {
	m := manager(t, &source{})
	p := pod(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, hostPath("/etc", ""))
	p.Spec.Volumes[1].Name = "host"
	if err := m.Mount(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	dir := m.Path(p, &p.Spec.Volumes[0])
	for name, place := range map[string]func(path string) error{
		"good":  func(path string) error { return os.WriteFile(path, []byte("A='1'"), 0o600) },
		"large": func(path string) error { return os.WriteFile(path, make([]byte, maxFile+1), 0o600) },
		"pipe":  func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"dir":   func(path string) error { return os.Mkdir(path, 0o700) },
		"out":   func(path string) error { return os.Symlink("/etc/passwd", path) },
		"up":    func(path string) error { return os.Symlink("../../../../../../../etc/passwd", path) },
		"link":  func(path string) error { return os.Symlink("good", path) },
	} {
		if err := place(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		volume, path, want string // of the content, or of the error
		ok                 bool
	}{
		{"v", "good", "A='1'", true},
		{"v", "link", "A='1'", true},
		{"v", "none", "no such file", false},
		{"v", "large", "larger than", false},
		{"v", "pipe", "not a regular file", false},
		{"v", "dir", "not a regular file", false},
		{"v", "out", "escapes", false},
		{"v", "up", "escapes", false},
		{"v", "../../../../etc/passwd", "escapes", false},
		{"host", "passwd", "no emptyDir", false},
		{"w", "good", "cannot find volume", false},
	} {
		data, err := m.ReadFile(p, c.volume, c.path)
		got := string(data)
		if err != nil {
			got = err.Error()
		}
		if (err == nil) != c.ok || !strings.Contains(got, c.want) {
			t.Errorf("%s of %s: %q, want %q", c.path, c.volume, got, c.want)
		}
	}
}

// TestMadeWithoutLinks: what ...OrCreate makes is made where the path was found to lead, not where a link leads that
// somebody puts there meanwhile.
func TestMadeWithoutLinks(t *testing.T) {
	data, beside := kernelDir(t, manager(t, &source{}))
	real, err := filepath.EvalSymlinks(beside)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(data, filepath.Join(real, "swapped")); err != nil {
		t.Fatal(err)
	}
	if f, err := walk(filepath.Join(real, "swapped", "dir"), true); err == nil {
		t.Errorf("made %s", f.Name())
	}
	for _, path := range []string{"swapped/file", "swapped"} {
		if err := makeFile(filepath.Join(real, path)); err == nil {
			t.Errorf("made %s", path)
		}
	}
	for _, name := range []string{"dir", "file"} {
		if _, err := os.Lstat(filepath.Join(data, name)); err == nil {
			t.Errorf("%s was made in the kernel's directory", name)
		}
	}
	if err := makeFile(filepath.Join(real, "none", "file")); err == nil {
		t.Error("a file's directory was made")
	}
}
