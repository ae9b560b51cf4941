package persistentvolumebinder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

var errDead = errors.New("the controller's process is dead")

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

// world is an API of objects with versions. A keeper works in it on caches that are filled when
// refresh is called.
type world struct {
	*testing.T
	client *fake.Clientset
	k      *keeper
	cached map[schema.GroupVersionResource]cache.Indexer
	events *record.FakeRecorder

	version int
	writes  int // of the keeper
	dieAt   int // the write that does not happen any more, nor any later one; 0: none
	inside  bool
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{T: t, client: fake.NewSimpleClientset(), version: 100} // without managed fields, which take milliseconds a write
	w.client.PrependReactor("update", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		u := a.(k8stesting.UpdateAction)
		obj := u.GetObject().(metav1.Object)
		if w.inside {
			if w.writes++; w.dieAt > 0 && w.writes >= w.dieAt {
				return true, nil, errDead
			}
		}
		was, err := w.client.Tracker().Get(a.GetResource(), a.GetNamespace(), obj.GetName())
		if err != nil {
			return true, nil, err
		}
		if was.(metav1.Object).GetResourceVersion() != obj.GetResourceVersion() || was.(metav1.Object).GetUID() != obj.GetUID() {
			return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), obj.GetName(), errors.New("changed"))
		}
		out := u.GetObject().DeepCopyObject()
		switch o := out.(type) { // a status is written by its subresource alone
		case *corev1.PersistentVolume:
			old := was.(*corev1.PersistentVolume).DeepCopy()
			if a.GetSubresource() == "status" {
				old.Status, out = o.Status, old
			} else {
				o.Status = old.Status
			}
		case *corev1.PersistentVolumeClaim:
			old := was.(*corev1.PersistentVolumeClaim).DeepCopy()
			if a.GetSubresource() == "status" {
				old.Status, out = o.Status, old
			} else {
				o.Status = old.Status
			}
		}
		w.put(out)
		return true, out, nil
	})
	for _, o := range objects {
		w.put(o)
	}
	w.restart()
	return w
}

func resourceOf(obj runtime.Object) schema.GroupVersionResource {
	switch obj.(type) {
	case *corev1.PersistentVolumeClaim:
		return claimsOf
	case *corev1.PersistentVolume:
		return volumesOf
	case *corev1.Pod:
		return podsOf
	}
	return classesOf
}

// put stores an object with a new version, as any writer does.
func (w *world) put(obj runtime.Object) {
	w.Helper()
	o := obj.(metav1.Object)
	w.version++
	o.SetResourceVersion(strconv.Itoa(w.version))
	gvr := resourceOf(obj)
	err := w.client.Tracker().Update(gvr, obj.DeepCopyObject(), o.GetNamespace())
	if apierrors.IsNotFound(err) {
		err = w.client.Tracker().Create(gvr, obj.DeepCopyObject(), o.GetNamespace())
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) remove(obj runtime.Object) {
	w.Helper()
	o := obj.(metav1.Object)
	if err := w.client.Tracker().Delete(resourceOf(obj), o.GetNamespace(), o.GetName()); err != nil {
		w.Fatal(err)
	}
}

func (w *world) list(gvr schema.GroupVersionResource, kind string) []runtime.Object {
	w.Helper()
	list, err := w.client.Tracker().List(gvr, gvr.GroupVersion().WithKind(kind), "")
	if err != nil {
		w.Fatal(err)
	}
	objs, err := meta.ExtractList(list)
	if err != nil {
		w.Fatal(err)
	}
	return objs
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	obj, err := w.client.Tracker().Get(claimsOf, "default", name)
	if err != nil {
		return nil
	}
	return obj.(*corev1.PersistentVolumeClaim).DeepCopy()
}

func (w *world) volume(name string) *corev1.PersistentVolume {
	obj, err := w.client.Tracker().Get(volumesOf, "", name)
	if err != nil {
		return nil
	}
	return obj.(*corev1.PersistentVolume).DeepCopy()
}

// restart is a new process of the controller.
func (w *world) restart() {
	w.Helper()
	shared := informers.NewSharedInformerFactory(w.client, 0)
	cfg, err := readConfig(nil)
	if err != nil {
		w.Fatal(err)
	}
	k, err := build(w.client, shared, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(workers{k}.Close)
	w.events = record.NewFakeRecorder(100000)
	k.recorder, w.k, w.dieAt = w.events, k, 0
	w.cached = map[schema.GroupVersionResource]cache.Indexer{
		claimsOf: shared.Core().V1().PersistentVolumeClaims().Informer().GetIndexer(), volumesOf: shared.Core().V1().PersistentVolumes().Informer().GetIndexer(),
		podsOf: shared.Core().V1().Pods().Informer().GetIndexer(), classesOf: shared.Storage().V1().StorageClasses().Informer().GetIndexer(),
	}
	w.refresh()
	w.k.fill(w.Context())
}

func (w *world) refresh() {
	w.Helper()
	for gvr, kind := range map[schema.GroupVersionResource]string{claimsOf: "PersistentVolumeClaim", volumesOf: "PersistentVolume", podsOf: "Pod", classesOf: "StorageClass"} {
		var all []any
		for _, o := range w.list(gvr, kind) {
			all = append(all, o.DeepCopyObject())
		}
		if err := w.cached[gvr].Replace(all, ""); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) do(sync func(context.Context, string) error, key string) error {
	w.inside = true
	defer func() { w.inside = false }()
	return sync(w.Context(), key)
}

// pass syncs all that is known once, claims first or last.
func (w *world) pass(claimsFirst bool) error {
	claims := func() error {
		for _, key := range sorted(append(w.k.claims.store.ListKeys(), w.cached[claimsOf].ListKeys()...)) {
			if err := w.do(w.k.syncClaimKey, key); err != nil {
				return err
			}
		}
		return nil
	}
	volumes := func() error {
		for _, name := range sorted(append(w.k.volumes.store.ListKeys(), w.cached[volumesOf].ListKeys()...)) {
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
	for _, o := range w.list(claimsOf, "PersistentVolumeClaim") {
		c := o.(*corev1.PersistentVolumeClaim)
		if c.Annotations[volume.AnnStorageProvisioner] != name || w.volume("pvc-"+string(c.UID)) != nil || c.Spec.VolumeName != "" {
			continue
		}
		w.put(newVolume("pvc-"+string(c.UID), "7Gi", keptFor(c.Name, c.UID), policy(corev1.PersistentVolumeReclaimDelete),
			annotated(volume.AnnDynamicallyProvisioned, name), func(v *corev1.PersistentVolume) {
				v.Spec.StorageClassName = *c.Spec.StorageClassName
				v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending}
			}))
		did = true
	}
	for _, o := range w.list(volumesOf, "PersistentVolume") {
		v := o.(*corev1.PersistentVolume)
		if v.Annotations[volume.AnnDynamicallyProvisioned] == name && v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			w.remove(v)
			did = true
		}
	}
	return did
}

// settle goes on until nothing happens any more.
func (w *world) settle() {
	w.Helper()
	for i := range 100 {
		before := w.writes
		w.refresh()
		err := w.pass(i%2 == 0)
		if errors.Is(err, errDead) {
			w.restart()
			continue
		}
		if did := w.provisioner("example.com/p"); err == nil && !did && w.writes == before && i > 1 {
			return
		}
	}
	w.Fatalf("no end:\n%s", w.picture())
}

// picture is the state that matters.
func (w *world) picture() string {
	w.Helper()
	var lines []string
	for _, o := range w.list(claimsOf, "PersistentVolumeClaim") {
		c := o.(*corev1.PersistentVolumeClaim)
		size := c.Status.Capacity[corev1.ResourceStorage]
		lines = append(lines, fmt.Sprintf("claim %s %s of %q: %s %s %v %v", c.Name, c.UID, ptr.Deref(c.Spec.StorageClassName, "none"), c.Status.Phase, c.Spec.VolumeName, size.String(), c.Annotations))
	}
	for _, o := range w.list(volumesOf, "PersistentVolume") {
		v := o.(*corev1.PersistentVolume)
		ref := "-"
		if v.Spec.ClaimRef != nil {
			ref = v.Spec.ClaimRef.Name + " " + string(v.Spec.ClaimRef.UID)
		}
		lines = append(lines, fmt.Sprintf("volume %s: %s %s %v", v.Name, v.Status.Phase, ref, v.Annotations))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (w *world) told() string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}
