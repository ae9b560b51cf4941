package node

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestStorageLimits: KLT-13, KLT-15: a pod that uses more local storage than it may is evicted, in the kubelet's words;
// others, and critical ones, stay.
func TestStorageLimits(t *testing.T) {
	w := newWorld(t, func(cfg *Config) { cfg.StoragePeriod = 20 * time.Millisecond })
	limit := resource.MustParse("256Ki")
	volume := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
	}
	for name, change := range map[string]func(*corev1.Pod){
		"volume": volume,
		"modest": volume,
		"critical": func(p *corev1.Pod) {
			volume(p)
			priority := int32(2000000000)
			p.Spec.Priority = &priority
		},
		"log": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: limit}
			p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
			p.Spec.Containers[1].Name = "other"
			p.Spec.Containers[1].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")}
		},
		"sum": func(p *corev1.Pod) {
			volume(p)
			p.Spec.Volumes[0].EmptyDir.SizeLimit = nil
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: limit}
		},
		"sidecar": func(p *corev1.Pod) {
			always := corev1.ContainerRestartPolicyAlways
			side := *p.Spec.Containers[0].DeepCopy()
			side.Name, side.RestartPolicy = "side", &always
			side.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: limit}
			p.Spec.InitContainers = []corev1.Container{side}
		},
	} {
		w.create(newPod(name, change))
		w.eventually(name+" runs", func() bool { return w.phase(name) == corev1.PodRunning })
	}
	fill := func(size int, path ...string) {
		t.Helper()
		file := filepath.Join(append([]string{w.root}, path...)...)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, bytes.Repeat([]byte("x"), size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	scratch := func(name string) []string {
		return []string{"pods", "uid-" + name, "volumes", "kubernetes.io~empty-dir", "scratch", "file"}
	}
	fill(1<<20, scratch("volume")...)
	fill(16<<10, scratch("modest")...)
	fill(1<<20, scratch("critical")...)
	fill(1<<20, scratch("sum")...)
	fill(1<<20, "logs", "pods", "default_log_uid-log", "main", "0.log.old")
	fill(1<<20, "logs", "pods", "default_sidecar_uid-sidecar", "side", "0.log.old")

	for name, message := range map[string]string{
		"volume": `Usage of EmptyDir volume "scratch" exceeds the limit "256Ki". `,
		"log":    `Container main exceeded its local ephemeral storage limit "256Ki". `,
		"sum":    `Pod ephemeral local storage usage exceeds the total limit of containers 256Ki. `,
		// Of all containers together, where a sidecar alone has a limit.
		"sidecar": `Pod ephemeral local storage usage exceeds the total limit of containers 256Ki. `,
	} {
		w.eventually(name+" is evicted", func() bool { return w.phase(name) == corev1.PodFailed })
		if s := w.get(name).Status; s.Reason != "Evicted" || s.Message != message {
			t.Errorf("%s: %s: %q, want %q", name, s.Reason, s.Message, message)
		}
		// As the kubelet has it: the pod's own fault is no disruption.
		if c := conditionOf(w.get(name), corev1.DisruptionTarget); c != nil {
			t.Errorf("%s: condition %+v", name, c)
		}
		w.eventually("event of "+name, func() bool { return w.hasEvent("Warning " + name + " Evicted: " + strings.TrimSpace(message)) })
	}
	for _, name := range []string{"modest", "critical"} {
		if w.phase(name) != corev1.PodRunning {
			t.Errorf("%s is %s", name, w.phase(name))
		}
	}
}
