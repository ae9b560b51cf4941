package persistentvolumebinder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/internal/testapi"
)

var (
	claimsOf  = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	volumesOf = corev1.SchemeGroupVersion.WithResource("persistentvolumes")
	podsOf    = corev1.SchemeGroupVersion.WithResource("pods")
	classesOf = storagev1.SchemeGroupVersion.WithResource("storageclasses")
)

func newClaim(name, size string, changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	c.Spec.StorageClassName = ptr.To("")
	c.Status.Phase = corev1.ClaimPending
	for _, change := range changes {
		change(c)
	}
	return c
}

func newVolume(name, size string, changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/srv/" + name}
	v.Status.Phase = corev1.VolumeAvailable
	for _, change := range changes {
		change(v)
	}
	return v
}

func newClass(name, provisioner string, changes ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate)}
	for _, change := range changes {
		change(c)
	}
	return c
}

func waits(c *storagev1.StorageClass) {
	c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
}

func byDefault(c *storagev1.StorageClass) {
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, defaultClass, "true")
}

func ofClass(name string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &name }
}

func naming(pv string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = pv }
}

func keptFor(claim string, uid types.UID) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: claim, UID: uid}
	}
}

func policy(p corev1.PersistentVolumeReclaimPolicy) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = p }
}

func annotated(pairs ...string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		for i := 0; i < len(pairs); i += 2 {
			metav1.SetMetaDataAnnotation(&v.ObjectMeta, pairs[i], pairs[i+1])
		}
	}
}

// world is an API of claims and volumes in which a keeper works.
type world struct {
	*testapi.API
	k *keeper
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	// A client without managed fields, which take milliseconds a write.
	w := &world{API: testapi.New(t, fake.NewSimpleClientset(), true, map[string]schema.GroupVersionResource{"PersistentVolumeClaim": claimsOf, "PersistentVolume": volumesOf, "Pod": podsOf, "StorageClass": classesOf})}
	w.Dies("update", w.Update)
	for _, o := range objects {
		w.Put(o)
	}
	w.restart()
	return w
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	return testapi.Get[*corev1.PersistentVolumeClaim](w.API, claimsOf, "default", name)
}

func (w *world) volume(name string) *corev1.PersistentVolume {
	return testapi.Get[*corev1.PersistentVolume](w.API, volumesOf, "", name)
}

// restart is a new process of the controller.
func (w *world) restart() {
	w.Helper()
	shared := informers.NewSharedInformerFactory(w.Client, 0)
	cfg, err := readConfig(nil)
	if err != nil {
		w.Fatal(err)
	}
	k, err := build(w.Client, shared, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(workers{k}.Close)
	w.Begin(map[schema.GroupVersionResource]cache.Indexer{
		claimsOf: shared.Core().V1().PersistentVolumeClaims().Informer().GetIndexer(), volumesOf: shared.Core().V1().PersistentVolumes().Informer().GetIndexer(),
		podsOf: shared.Core().V1().Pods().Informer().GetIndexer(), classesOf: shared.Storage().V1().StorageClasses().Informer().GetIndexer(),
	})
	k.recorder, w.k = w.Events, k
	w.k.fill(w.Context())
}

func (w *world) do(sync func(context.Context, string) error, key string) error {
	return w.Inside(func() error { return sync(w.Context(), key) })
}

// pass syncs all that is known once, claims first or last.
func (w *world) pass(claimsFirst bool) error {
	claims := func() error {
		for _, key := range sorted(append(w.k.claims.store.ListKeys(), w.Cache(claimsOf).ListKeys()...)) {
			if err := w.do(w.k.syncClaimKey, key); err != nil {
				return err
			}
		}
		return nil
	}
	volumes := func() error {
		for _, name := range sorted(append(w.k.volumes.store.ListKeys(), w.Cache(volumesOf).ListKeys()...)) {
			if err := w.do(w.k.syncVolumeKey, name); err != nil {
				return err
			}
		}
		return nil
	}
	if claimsFirst {
		return errors.Join(claims(), volumes())
	}
	return errors.Join(volumes(), claims())
}

func sorted(keys []string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}

// provisioner does what an external one does; it says whether it did anything.
func (w *world) provisioner(name string) (did bool) {
	w.Helper()
	for _, c := range testapi.List[*corev1.PersistentVolumeClaim](w.API, claimsOf) {
		if c.Annotations[volume.AnnStorageProvisioner] != name || w.volume("pvc-"+string(c.UID)) != nil || c.Spec.VolumeName != "" {
			continue
		}
		w.Put(newVolume("pvc-"+string(c.UID), "7Gi", keptFor(c.Name, c.UID), policy(corev1.PersistentVolumeReclaimDelete),
			annotated(volume.AnnDynamicallyProvisioned, name), func(v *corev1.PersistentVolume) {
				v.Spec.StorageClassName = *c.Spec.StorageClassName
				v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending}
			}))
		did = true
	}
	for _, v := range testapi.List[*corev1.PersistentVolume](w.API, volumesOf) {
		if v.Annotations[volume.AnnDynamicallyProvisioned] == name && v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			w.Remove(v)
			did = true
		}
	}
	return did
}

// settle goes on until nothing happens any more.
func (w *world) settle() {
	w.Helper()
	for i := range 100 {
		before := w.Writes
		w.Refresh()
		err := w.pass(i%2 == 0)
		if errors.Is(err, testapi.ErrDead) {
			w.restart()
			continue
		}
		if did := w.provisioner("example.com/p"); err == nil && !did && w.Writes == before && i > 1 {
			return
		}
	}
	w.Fatalf("no end:\n%s", w.picture())
}

// picture is the state that matters.
func (w *world) picture() string {
	w.Helper()
	var lines []string
	for _, c := range testapi.List[*corev1.PersistentVolumeClaim](w.API, claimsOf) {
		size := c.Status.Capacity[corev1.ResourceStorage]
		lines = append(lines, fmt.Sprintf("claim %s %s of %q: %s %s %v %v", c.Name, c.UID, ptr.Deref(c.Spec.StorageClassName, "none"), c.Status.Phase, c.Spec.VolumeName, size.String(), c.Annotations))
	}
	for _, v := range testapi.List[*corev1.PersistentVolume](w.API, volumesOf) {
		ref := "-"
		if v.Spec.ClaimRef != nil {
			ref = v.Spec.ClaimRef.Name + " " + string(v.Spec.ClaimRef.UID)
		}
		lines = append(lines, fmt.Sprintf("volume %s: %s %s %v", v.Name, v.Status.Phase, ref, v.Annotations))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
