package ephemeralvolume

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/controller"
)

func newPod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid-p"}}
	template := &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}}}
	template.Spec.StorageClassName = ptr.To("fast")
	p.Spec.Volumes = []corev1.Volume{
		{Name: "plain", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: template}}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func newClaim(owner string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-scratch"}}
	if owner != "" {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: newPod().UID, Controller: ptr.To(true)}}
		if owner != "p" {
			c.OwnerReferences[0].UID = "uid-before"
		}
	}
	return c
}

// A pod gets its claim, owned by it. A claim of another owner stays as it is, and an event names it.
func TestSync(t *testing.T) {
	for _, tt := range []struct {
		name    string
		objects []runtime.Object
		made    bool
		event   string
	}{
		{name: "new", objects: []runtime.Object{newPod()}, made: true},
		{name: "has it", objects: []runtime.Object{newPod(), newClaim("p")}},
		{name: "a claim of nobody", objects: []runtime.Object{newPod(), newClaim("")}, event: "Warning FailedBinding ephemeral volume scratch: PVC ns/p-scratch was not created for pod ns/p (pod is not owner)"},
		{name: "a claim of the pod before", objects: []runtime.Object{newPod(), newClaim("other")}, event: "was not created for pod ns/p (pod is not owner)"},
		{name: "pod is going", objects: []runtime.Object{newPod(func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.Now()), []string{"x/y"} })}},
		{name: "pod is gone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(tt.objects...)
			shared := informers.NewSharedInformerFactory(client, 0)
			k, err := build(client, shared, 1, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			events := record.NewFakeRecorder(10)
			k.Recorder = events
			for _, o := range tt.objects {
				indexer := shared.Core().V1().Pods().Informer().GetIndexer()
				if _, ok := o.(*corev1.PersistentVolumeClaim); ok {
					indexer = shared.Core().V1().PersistentVolumeClaims().Informer().GetIndexer()
				}
				if err := indexer.Add(o); err != nil {
					t.Fatal(err)
				}
			}
			if err := k.sync(t.Context(), "ns/p"); (err != nil) != (tt.event != "") {
				t.Fatal(err)
			}
			var told string
			select {
			case told = <-events.Events:
			default:
			}
			if !strings.Contains(told, tt.event) || tt.event == "" && told != "" {
				t.Errorf("told %q", told)
			}
			made := false
			for _, a := range client.Actions() {
				made = made || a.GetVerb() == "create"
			}
			if made != tt.made {
				t.Errorf("made %v", made)
			}
			if !tt.made {
				return
			}
			c, err := client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "p-scratch", metav1.GetOptions{})
			if err != nil || !metav1.IsControlledBy(c, newPod()) || !*c.OwnerReferences[0].BlockOwnerDeletion || c.Labels["a"] != "b" || c.Annotations["c"] != "d" || *c.Spec.StorageClassName != "fast" {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}

// A pod whose claim was in the way gets its own when that ends.
func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	client := fake.NewClientset(newPod(), newClaim("other"))
	// A watch of the fake does not deliver what was deleted between the list and the watch.
	watching := make(chan struct{})
	made := sync.OnceFunc(func() { close(watching) })
	client.PrependWatchReactor("persistentvolumeclaims", func(a k8stesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(a.GetResource(), a.GetNamespace(), a.(k8stesting.WatchActionImpl).ListOptions)
		if err == nil {
			made()
		}
		return true, w, err
	})
	shared := informers.NewSharedInformerFactory(client, 0)
	runner, err := New(&controller.Context{Client: client, Informers: shared, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop, done := make(chan struct{}), make(chan error, 1)
	shared.Start(stop)
	go func() { done <- runner.Run(ctx) }()
	select {
	case <-watching:
	case <-time.After(2 * time.Minute):
		t.Fatal("claims are not watched")
	}
	if err := client.CoreV1().PersistentVolumeClaims("ns").Delete(ctx, "p-scratch", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		c, err := client.CoreV1().PersistentVolumeClaims("ns").Get(ctx, "p-scratch", metav1.GetOptions{})
		if err == nil && metav1.IsControlledBy(c, newPod()) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(stop)
	shared.Shutdown()
}
