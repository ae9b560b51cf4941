package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestImageVolumes: KEP-4639: the image of a volume is brought to the node by its pull policy and given to the runtime to
// mount, read only; a container that mounts none does not wait for it.
func TestImageVolumes(t *testing.T) {
	w := newWorld(t, nil)
	w.runtime.AddImage("files:1")
	volume := func(ref string, policy corev1.PullPolicy) []corev1.Volume {
		return []corev1.Volume{{Name: "files", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: ref, PullPolicy: policy}}}}
	}
	w.create(newPod("p", func(p *corev1.Pod) {
		p.Spec.Volumes = volume("files:1", corev1.PullIfNotPresent)
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "files", MountPath: "/files", SubPath: "usr/share"}}
	}))
	w.create(newPod("absent", func(p *corev1.Pod) {
		p.Spec.Volumes = volume("none:1", corev1.PullNever)
		other := *p.Spec.Containers[0].DeepCopy()
		other.Name = "other"
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "files", MountPath: "/files"}}
		p.Spec.Containers = append(p.Spec.Containers, other)
	}))
	w.eventually("runs", func() bool { return w.phase("p") == corev1.PodRunning })
	found := false
	for _, m := range w.runtime.Find("p", "main").Config.Mounts {
		if m.ContainerPath == "/files" {
			found = m.GetImage().GetImage() == "sha256:files:1" && m.ImageSubPath == "usr/share" && m.Readonly && m.HostPath == ""
		}
	}
	if !found {
		t.Errorf("mounts %v", w.runtime.Find("p", "main").Config.Mounts)
	}
	w.eventually("the other runs, and the first says why it does not", func() bool {
		for _, s := range w.get("absent").Status.ContainerStatuses {
			if s.Name == "main" {
				return s.State.Waiting != nil && s.State.Waiting.Reason == "ErrImageNeverPull" && w.runtime.Running("absent", "other")
			}
		}
		return false
	})
}

// TestFileKeyRef: KEP-3721: a container's variable is read from a file that an init container wrote.
func TestFileKeyRef(t *testing.T) {
	w := newWorld(t, nil)
	yes := true
	from := func(path, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "shared", Path: path, Key: key, Optional: optional}}
	}
	change := func(env ...corev1.EnvVar) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			p.Spec.InitContainers = []corev1.Container{*p.Spec.Containers[0].DeepCopy()}
			p.Spec.InitContainers[0].Name = "init"
			p.Spec.Containers[0].Env = env
		}
	}
	for name, change := range map[string]func(*corev1.Pod){
		"good": change(
			corev1.EnvVar{Name: "A", ValueFrom: from("env/file", "KEY", nil)}, corev1.EnvVar{Name: "B", Value: "has $(A)"},
			corev1.EnvVar{Name: "C", ValueFrom: from("env/file", "OTHER", &yes)}, corev1.EnvVar{Name: "D", ValueFrom: from("env/none", "KEY", &yes)}),
		"nokey":  change(corev1.EnvVar{Name: "A", ValueFrom: from("env/file", "OTHER", nil)}),
		"nofile": change(corev1.EnvVar{Name: "A", ValueFrom: from("env/none", "KEY", nil)}),
	} {
		w.create(newPod(name, change))
		w.eventually("init of "+name, func() bool { return w.runtime.Running(name, "init") })
		dir := filepath.Join(w.root, "pods", "uid-"+name, "volumes", "kubernetes.io~empty-dir", "shared", "env")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("# written by init\nKEY='one\ntwo'\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		w.runtime.Exit(w.runtime.Find(name, "init").ID, 0)
	}
	w.eventually("runs", func() bool { return w.phase("good") == corev1.PodRunning })
	got := map[string]string{}
	for _, kv := range w.runtime.Find("good", "main").Config.Envs {
		got[kv.Key] = string(kv.Value)
	}
	if _, c := got["C"]; got["A"] != "one\ntwo" || got["B"] != "has one\ntwo" || c || len(got["D"]) > 0 {
		t.Errorf("environment %v", got)
	}
	for name, want := range map[string]string{"nokey": `key "OTHER" not found`, "nofile": "couldn't read env file"} {
		w.eventually(name+" says why", func() bool {
			s := w.get(name).Status.ContainerStatuses
			return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "CreateContainerConfigError" && strings.Contains(s[0].State.Waiting.Message, want)
		})
	}
}
