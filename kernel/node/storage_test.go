package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/kernel/node/eviction"
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
		// CVE-2020-8557: files that the agent made and containers write.
		"hosts": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: limit}
		},
		"words": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: limit}
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
	fill(1<<20, "pods", "uid-hosts", "etc-hosts")
	fill(1<<20, "pods", "uid-words", "containers", "main", "words")
	fill(1<<20, "logs", "pods", "default_log_uid-log", "main", "0.log.old")
	fill(1<<20, "logs", "pods", "default_sidecar_uid-sidecar", "side", "0.log.old")

	for name, message := range map[string]string{
		"volume": `Usage of EmptyDir volume "scratch" exceeds the limit "256Ki". `,
		"log":    `Container main exceeded its local ephemeral storage limit "256Ki". `,
		"sum":    `Pod ephemeral local storage usage exceeds the total limit of containers 256Ki. `,
		// Of all containers together, where a sidecar alone has a limit.
		"sidecar": `Pod ephemeral local storage usage exceeds the total limit of containers 256Ki. `,
		"hosts":   `Pod ephemeral local storage usage exceeds the total limit of containers 256Ki. `,
		"words":   `Pod ephemeral local storage usage exceeds the total limit of containers 256Ki. `,
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

// TestNodeEviction: H4: on a disk that is nearly full the largest writer goes, with its containers and files, while the
// API refuses writes; the others stay, and new pods are refused.
func TestNodeEviction(t *testing.T) {
	w := newWorld(t, nil)
	for _, name := range []string{"small", "large"} {
		w.create(newPod(name, func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}))
		w.eventually(name+" runs", func() bool { return w.phase(name) == corev1.PodRunning })
	}
	scratch := func(name string) string {
		return filepath.Join(w.root, "pods", "uid-"+name, "volumes", "kubernetes.io~empty-dir", "scratch", "file")
	}
	for name, size := range map[string]int{"small": 1 << 10, "large": 4 << 20} {
		if err := os.WriteFile(scratch(name), bytes.Repeat([]byte("x"), size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	container := w.runtime.Find("large", "main").ID
	var full atomic.Bool
	full.Store(true)
	w.client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if full.Load() && action.GetVerb() != "get" && action.GetVerb() != "list" && action.GetVerb() != "watch" {
			return true, nil, apierrors.NewInternalError(errors.New("no space left on device"))
		}
		return false, nil, nil
	})
	next := w.cfg
	next.Eviction = []eviction.Threshold{{Signal: eviction.NodeFsAvailable, Share: 1}} // no disk has all of it left
	next.PressureTransition = time.Hour
	if err := w.agent.Reconfigure(next); err != nil {
		t.Fatal(err)
	}
	w.eventually("the large one has ended", func() bool { return !w.runtime.Running("large", "main") })
	// One is enough: the disk would go on with the small one, which writes as well.
	next.Eviction = []eviction.Threshold{{Signal: eviction.NodeFsAvailable, Amount: resource.MustParse("1")}}
	if err := w.agent.Reconfigure(next); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(scratch("small")); err != nil {
		t.Error(err)
	}
	w.eventually("its files are gone", func() bool { _, err := os.Stat(scratch("large")); return os.IsNotExist(err) })
	if err := w.agent.parts.gc.CollectOver(t.Context(), w.agent.parts.pods.Over); err != nil {
		t.Fatal(err)
	}
	w.runtime.Lock()
	if w.runtime.Containers[container] != nil {
		t.Error("what it wrote to its own file system is still there")
	}
	w.runtime.Unlock()
	full.Store(false)
	w.eventually("the API knows", func() bool { return w.phase("large") == corev1.PodFailed })
	if s := w.get("large").Status; s.Reason != "Evicted" || !strings.HasPrefix(s.Message, "The node was low on resource: ephemeral-storage. ") {
		t.Errorf("%s: %q", s.Reason, s.Message)
	}
	w.eventually("the node knows", func() bool {
		n, err := w.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeDiskPressure && c.Status == corev1.ConditionTrue && c.Reason == "KubeletHasDiskPressure"
		})
	})
	tries := 0
	w.eventually("a new pod is refused", func() bool {
		tries++
		w.create(newPod(fmt.Sprint("late", tries), nil))
		return w.hasEvent("Evicted: The node had condition: [DiskPressure].")
	})
}
