package hostpath

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/localvolumes"
)

const (
	uid  = "0a1b2c3d-0000-4000-8000-00000000beef"
	name = "pvc-" + uid
	root = "/data/node/local-volumes"
)

func newClaim(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-db-0", UID: uid, Annotations: map[string]string{
		volume.AnnStorageProvisioner: localvolumes.Provisioner, volume.AnnSelectedNode: "n1",
	}}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	c.Spec.StorageClassName = ptr.To("standard")
	for _, change := range changes {
		change(c)
	}
	return c
}

func newClass(changes ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}, Provisioner: localvolumes.Provisioner,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete)}
	for _, change := range changes {
		change(c)
	}
	return c
}

func newNode(changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelHostname: "host1"}, Annotations: map[string]string{localvolumes.Annotation: root}}}
	for _, change := range changes {
		change(n)
	}
	return n
}

func releasedVolume(t *testing.T, changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	t.Helper()
	pv, err := newVolume(newClaim(), newClass(), newNode())
	if err != nil {
		t.Fatal(err)
	}
	pv.UID, pv.Status.Phase = "uid-pv", corev1.VolumeReleased
	for _, change := range changes {
		change(pv)
	}
	return pv
}

var errDead = errors.New("the controller's process is dead")

type world struct {
	*testing.T
	client  *fake.Clientset
	k       *keeper
	cached  map[schema.GroupVersionResource]cache.Indexer
	events  *record.FakeRecorder
	removed []string // node/volume, as the node was asked
	answer  func() (bool, error)
	writes  int
	dieAt   int
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{T: t, client: fake.NewSimpleClientset(objects...)}
	w.client.PrependReactor("delete", "persistentvolumes", func(a k8stesting.Action) (bool, runtime.Object, error) {
		pv := w.volume(a.(k8stesting.DeleteAction).GetName())
		if pv == nil || len(pv.Finalizers) == 0 {
			return false, nil, nil
		}
		pv.DeletionTimestamp = ptr.To(metav1.Now())
		return true, nil, w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("persistentvolumes"), pv, "")
	})
	w.client.PrependReactor("update", "persistentvolumes", func(a k8stesting.Action) (bool, runtime.Object, error) {
		pv := a.(k8stesting.UpdateAction).GetObject().(*corev1.PersistentVolume)
		if pv.DeletionTimestamp == nil || len(pv.Finalizers) > 0 {
			return false, nil, nil
		}
		return true, pv, w.client.Tracker().Delete(a.GetResource(), "", pv.Name)
	})
	w.client.PrependReactor("*", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if slices.Contains([]string{"get", "list", "watch"}, a.GetVerb()) {
			return false, nil, nil
		}
		return w.write()
	})
	w.restart()
	return w
}

func (w *world) write() (bool, runtime.Object, error) {
	if w.writes++; w.dieAt > 0 && w.writes >= w.dieAt {
		return true, nil, errDead
	}
	return false, nil, nil
}

func (w *world) restart() {
	w.Helper()
	shared := informers.NewSharedInformerFactory(w.client, 0)
	k := build(w.client, shared, Config{}, slog.New(slog.DiscardHandler))
	w.Cleanup(func() { k.claimLoop.Close(); k.volumeLoop.Close(); k.classLoop.Close() })
	w.events = record.NewFakeRecorder(1000)
	k.recorder, w.k, w.dieAt = w.events, k, 0
	k.remove = func(_ context.Context, node, volume string) (bool, error) {
		if dead, _, err := w.write(); dead {
			return false, err
		}
		w.removed = append(w.removed, node+"/"+volume)
		if w.answer != nil {
			return w.answer()
		}
		return true, nil
	}
	core := corev1.SchemeGroupVersion
	w.cached = map[schema.GroupVersionResource]cache.Indexer{
		core.WithResource("persistentvolumeclaims"):                 shared.Core().V1().PersistentVolumeClaims().Informer().GetIndexer(),
		core.WithResource("persistentvolumes"):                      shared.Core().V1().PersistentVolumes().Informer().GetIndexer(),
		core.WithResource("nodes"):                                  shared.Core().V1().Nodes().Informer().GetIndexer(),
		storagev1.SchemeGroupVersion.WithResource("storageclasses"): shared.Storage().V1().StorageClasses().Informer().GetIndexer(),
	}
	w.refresh()
}

func (w *world) refresh() {
	w.Helper()
	ctx := w.Context()
	var lists [4][]any
	claims, err1 := w.client.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	volumes, err2 := w.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	nodes, err3 := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	classes, err4 := w.client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		w.Fatal(err)
	}
	for i := range claims.Items {
		lists[0] = append(lists[0], &claims.Items[i])
	}
	for i := range volumes.Items {
		lists[1] = append(lists[1], &volumes.Items[i])
	}
	for i := range nodes.Items {
		lists[2] = append(lists[2], &nodes.Items[i])
	}
	for i := range classes.Items {
		lists[3] = append(lists[3], &classes.Items[i])
	}
	for i, resource := range []string{"persistentvolumeclaims", "persistentvolumes", "nodes", "storageclasses"} {
		for gvr, c := range w.cached {
			if gvr.Resource == resource {
				if err := c.Replace(lists[i], ""); err != nil {
					w.Fatal(err)
				}
			}
		}
	}
}

func (w *world) volume(name string) *corev1.PersistentVolume {
	obj, err := w.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("persistentvolumes"), "", name)
	if err != nil {
		return nil
	}
	return obj.(*corev1.PersistentVolume).DeepCopy()
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

// A volume is named by the claim's UID and lies where its node says; nothing of it is what a user wrote.
func TestProvision(t *testing.T) {
	w := newWorld(t, newClass(), newNode(), newClaim(func(c *corev1.PersistentVolumeClaim) { c.Name = "..-etc-passwd" }))
	if err := w.k.syncClaim(t.Context(), "default/..-etc-passwd"); err != nil {
		t.Fatal(err)
	}
	pv := w.volume(name)
	if pv == nil {
		t.Fatalf("no volume: %s", w.told())
	}
	size := pv.Spec.Capacity[corev1.ResourceStorage]
	if pv.Spec.Local == nil || pv.Spec.Local.Path != root+"/"+name || size.String() != "1Gi" || pv.Spec.ClaimRef.UID != uid || pv.Spec.StorageClassName != "standard" ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || hostnameOf(pv) != "host1" ||
		pv.Annotations[volume.AnnDynamicallyProvisioned] != localvolumes.Provisioner || !slices.Equal(pv.Finalizers, []string{volume.PVDeletionProtectionFinalizer}) {
		t.Errorf("%+v", pv)
	}
	if told := w.told(); told != "Normal Provisioning External provisioner is provisioning volume for claim \"default/..-etc-passwd\"\nNormal ProvisioningSucceeded Successfully provisioned volume "+name {
		t.Errorf("told %s", told)
	}
	retain, err := newVolume(newClaim(), newClass(func(c *storagev1.StorageClass) { c.ReclaimPolicy = ptr.To(corev1.PersistentVolumeReclaimRetain) }), newNode())
	if err != nil || len(retain.Finalizers) > 0 || retain.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("%+v, %v", retain, err)
	}
}

// What is not to be had is refused with its reason, and makes no volume.
func TestRefusals(t *testing.T) {
	type claim = func(*corev1.PersistentVolumeClaim)
	type class = func(*storagev1.StorageClass)
	none, same := claim(func(*corev1.PersistentVolumeClaim) {}), class(func(*storagev1.StorageClass) {})
	for _, tt := range []struct {
		name  string
		claim claim
		class class
		want  string // of an event; empty: none
	}{
		{"immediate", none, func(c *storagev1.StorageClass) { c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate) }, "needs volumeBindingMode WaitForFirstConsumer"},
		{"a path", none, func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"path": "/etc"} }, "takes none"},
		{"mount options", none, func(c *storagev1.StorageClass) { c.MountOptions = []string{"suid"} }, "mountOptions of the class are not supported"},
		{"block", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, same, "volumeMode Block is not supported"},
		{"shared", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}, same, "only the access modes ReadWriteOnce"},
		{"selector", func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }, same, "claim Selector is not supported"},
		{"clone", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
		}, same, "dataSource is not supported"},
		{"attributes", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") }, same, "volumeAttributesClassName is not supported"},
		{"a UID that leads elsewhere", func(c *corev1.PersistentVolumeClaim) { c.UID = "../../../etc" }, same, "by which no volume can be named"},
		{"another's", func(c *corev1.PersistentVolumeClaim) { c.Annotations[volume.AnnStorageProvisioner] = "example.com/p" }, same, ""},
		{"of another's class", none, func(c *storagev1.StorageClass) { c.Provisioner = "example.com/p" }, ""},
		{"its class is gone", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("gone") }, same, ""},
		{"bound", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }, same, ""},
		{"without a node yet", func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, volume.AnnSelectedNode) }, same, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, newClass(tt.class), newNode(), newClaim(tt.claim))
			if err := w.k.syncClaim(t.Context(), "default/data-db-0"); err != nil {
				t.Fatal(err)
			}
			if told := w.told(); !strings.Contains(told, tt.want) || (tt.want == "") != (told == "") || tt.want != "" && !strings.HasPrefix(told, `Warning ProvisioningFailed failed to provision volume with StorageClass "standard": `) {
				t.Errorf("told %q, want %q", told, tt.want)
			}
			if w.writes > 0 {
				t.Errorf("%d writes", w.writes)
			}
		})
	}
}

// A node that cannot have the volume is given back to the scheduler.
func TestReschedule(t *testing.T) {
	for what, objects := range map[string][]runtime.Object{
		"node is gone":             nil,
		"no place told":            {newNode(func(n *corev1.Node) { n.Annotations = nil })},
		"a relative place":         {newNode(func(n *corev1.Node) { n.Annotations[localvolumes.Annotation] = "../x" })},
		"a place that leads up":    {newNode(func(n *corev1.Node) { n.Annotations[localvolumes.Annotation] = "/data/../etc" })},
		"no host name":             {newNode(func(n *corev1.Node) { n.Labels = nil })},
		"another of its host name": {newNode(), newNode(func(n *corev1.Node) { n.Name = "n2" })},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, append(objects, newClass(), newClaim())...)
			if err := w.k.syncClaim(t.Context(), "default/data-db-0"); err != nil {
				t.Fatal(err)
			}
			c, err := w.client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "data-db-0", metav1.GetOptions{})
			if err != nil || metav1.HasAnnotation(c.ObjectMeta, volume.AnnSelectedNode) || w.volume(name) != nil {
				t.Errorf("%+v, %v", c, err)
			}
			told := w.told()
			if !strings.Contains(told, "Warning ProvisioningFailed") || strings.Contains(what, "place") && !strings.Contains(told, "node n1 has no local volumes: annotation "+localvolumes.Annotation+" is not a clean absolute path") {
				t.Errorf("told %s", told)
			}
		})
	}
}

// The data of a released volume goes, then the volume; what is in use, retained or another's stays.
func TestReclaim(t *testing.T) {
	fault := errors.New("local volume is in use by pod x")
	for _, tt := range []struct {
		name    string
		objects []runtime.Object
		change  func(*corev1.PersistentVolume)
		answer  func() (bool, error)
		asked   bool
		left    bool
		err     bool
		event   string
	}{
		{name: "released", asked: true},
		{name: "marked for deletion too", change: func(v *corev1.PersistentVolume) { v.DeletionTimestamp = ptr.To(metav1.Now()) }, asked: true},
		{name: "released, another claim of the name", objects: []runtime.Object{newClaim(func(c *corev1.PersistentVolumeClaim) { c.UID = "other" })}, asked: true},
		{name: "its claim is there", objects: []runtime.Object{newClaim()}, left: true},
		{name: "bound", change: func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }, left: true},
		{name: "retained", change: func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, left: true},
		{name: "never claimed", change: func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }, left: true},
		{name: "another provisioner's", change: func(v *corev1.PersistentVolume) { v.Annotations[volume.AnnDynamicallyProvisioned] = "example.com/p" }, left: true},
		{name: "in use", answer: func() (bool, error) { return false, fault }, asked: true, left: true, err: true, event: "Warning VolumeFailedDelete local volume is in use by pod x"},
		{name: "goes on", answer: func() (bool, error) { return false, nil }, asked: true, left: true, err: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pv := releasedVolume(t)
			if tt.change != nil {
				tt.change(pv)
			}
			w := newWorld(t, append(tt.objects, newNode(), pv)...)
			w.answer = tt.answer
			if err := w.k.syncVolume(t.Context(), name); (err != nil) != tt.err {
				t.Fatal(err)
			}
			if (len(w.removed) == 1 && w.removed[0] == "n1/"+name) != tt.asked || (w.volume(name) != nil) != tt.left {
				t.Errorf("asked %v, left %+v", w.removed, w.volume(name))
			}
			if told := w.told(); told != tt.event {
				t.Errorf("told %q", told)
			}
		})
	}
	w := newWorld(t, newNode(), releasedVolume(t, func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}))
	if err := w.k.syncVolume(t.Context(), name); err != nil || len(w.volume(name).Finalizers) > 0 {
		t.Errorf("retained: %+v, %v", w.volume(name), err)
	}
	// A cache that has it released does not decide.
	w = newWorld(t, newNode(), releasedVolume(t, func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }))
	for gvr, c := range w.cached {
		if gvr.Resource == "persistentvolumes" {
			if err := c.Replace([]any{releasedVolume(t)}, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.k.syncVolume(t.Context(), name); err != nil || len(w.removed) > 0 {
		t.Errorf("a stale cache: asked %v, %v", w.removed, err)
	}
}

// A volume that a user wrote by hand, with the annotation of this provisioner, has no node remove anything.
func TestForeignVolumes(t *testing.T) {
	for what, change := range map[string]func(*corev1.PersistentVolume){
		"/etc by another name": func(v *corev1.PersistentVolume) { v.Name, v.Spec.Local.Path = "evil", "/etc" },
		"/etc by a right name": func(v *corev1.PersistentVolume) { v.Spec.Local.Path = "/etc" },
		"/etc as hostPath": func(v *corev1.PersistentVolume) {
			v.Spec.Local, v.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: "/etc"}
		},
		"all volumes": func(v *corev1.PersistentVolume) { v.Spec.Local.Path = root },
		"another's directory": func(v *corev1.PersistentVolume) {
			v.Spec.Local.Path = root + "/pvc-0a1b2c3d-0000-4000-8000-00000000dead"
		},
		"a way up":             func(v *corev1.PersistentVolume) { v.Spec.Local.Path = root + "/" + name + "/../../../etc" },
		"a name that leads up": func(v *corev1.PersistentVolume) { v.Name, v.Spec.Local.Path = "pvc-..", root+"/pvc-.." },
		"on no node":           func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = nil },
		"on every node": func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0] = corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpExists}
		},
		"on two": func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"host1", "host2"}
		},
		"on a node that is gone": func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"host2"}
		},
	} {
		t.Run(what, func(t *testing.T) {
			pv := releasedVolume(t, change)
			w := newWorld(t, newNode(), pv)
			err := w.k.syncVolume(t.Context(), pv.Name)
			if (err != nil) != (what == "on a node that is gone") {
				t.Error(err)
			}
			if len(w.removed) > 0 || w.volume(pv.Name) == nil {
				t.Errorf("asked %v", w.removed)
			}
			if told := w.told(); !strings.Contains(told, "Warning VolumeFailedDelete") {
				t.Errorf("told %q", told)
			}
		})
	}
}

// A provisioner that dies before any of its writes, and is started anew, ends where one ends that lives.
func TestCrashAtEachWrite(t *testing.T) {
	life := func(dieAt int) (string, int) {
		w := newWorld(t, newClass(), newNode(), newClaim())
		w.dieAt = dieAt
		again := func(sync func(context.Context, string) error, key string) {
			for range 10 {
				w.refresh()
				err := sync(t.Context(), key)
				if errors.Is(err, errDead) {
					w.restart()
					sync = map[bool]func(context.Context, string) error{true: w.k.syncClaim, false: w.k.syncVolume}[strings.Contains(key, "/")]
					continue
				}
				if err != nil {
					t.Fatalf("dead at %d: %v", dieAt, err)
				}
				return
			}
			t.Fatal("no end")
		}
		again(w.k.syncClaim, "default/data-db-0")
		pv := w.volume(name)
		if pv == nil {
			t.Fatalf("dead at %d: no volume", dieAt)
		}
		pv.Status.Phase = corev1.VolumeReleased
		tracker := w.client.Tracker()
		if err := errors.Join(tracker.Update(corev1.SchemeGroupVersion.WithResource("persistentvolumes"), pv, ""), tracker.Delete(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "default", "data-db-0")); err != nil {
			t.Fatal(err)
		}
		again(w.k.syncVolume, name)
		return fmt.Sprint(w.volume(name) == nil, len(w.removed) > 0), w.writes
	}
	want, writes := life(0)
	if want != "true true" || writes < 4 {
		t.Fatalf("%s after %d writes", want, writes)
	}
	for n := 1; n <= writes; n++ {
		if got, _ := life(n); got != want {
			t.Errorf("dead at write %d of %d: %s", n, writes, got)
		}
	}
}

// The class is made once; what a user made of it, or has as default, stays.
func TestClass(t *testing.T) {
	mine := newClass(func(c *storagev1.StorageClass) { c.Provisioner = "example.com/mine" })
	other := newClass(func(c *storagev1.StorageClass) {
		c.Name = "other"
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, betaDefaultClass, "true")
	})
	for _, tt := range []struct {
		name        string
		objects     []runtime.Object
		provisioner string
		isDefault   string
	}{
		{"new", nil, localvolumes.Provisioner, "true"},
		{"the user's own", []runtime.Object{mine}, "example.com/mine", ""},
		{"beside another default", []runtime.Object{other}, localvolumes.Provisioner, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.objects...)
			for range 2 {
				if err := w.k.makeClass(t.Context(), "standard"); err != nil {
					t.Fatal(err)
				}
			}
			c, err := w.client.StorageV1().StorageClasses().Get(t.Context(), "standard", metav1.GetOptions{})
			if err != nil || c.Provisioner != tt.provisioner || c.Annotations[defaultClass] != tt.isDefault {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
	for text, want := range map[string]string{"": "", `{"storageClass":"standard"}`: "", `{"storageClass":"A/B"}`: "storageClass", `{"path":"/etc"}`: "unknown field"} {
		if _, err := readConfig([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The node is asked through the API server, and its answers are understood.
func TestAskNode(t *testing.T) {
	code, body, asked := 0, "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{client: client}
	for _, tt := range []struct {
		code int
		body string
		gone bool
		err  string
	}{
		{http.StatusNoContent, "", true, ""},
		{http.StatusAccepted, "", false, ""},
		{http.StatusConflict, "local volume is in use by pod x", false, "node n1: .*in use by pod x"},
		{http.StatusInternalServerError, "something is mounted there", false, "something is mounted there"},
		{http.StatusForbidden, "no", false, "node n1: "},
	} {
		code, body = tt.code, tt.body
		gone, err := k.askNode(t.Context(), "n1", name)
		if gone != tt.gone || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), strings.TrimPrefix(tt.err, "node n1: .*")) {
			t.Errorf("%d: %v, %v", tt.code, gone, err)
		}
		if asked != "DELETE /api/v1/nodes/n1/proxy/localvolumes/"+name {
			t.Errorf("asked %s", asked)
		}
	}
}

// silence is the way to nodes of which some take a request and never answer.
type silence map[string]bool

func (s silence) RoundTrip(r *http.Request) (*http.Response, error) {
	if node := strings.Split(r.URL.Path, "/")[4]; s[node] {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
}

// Agents that do not answer, one for each worker, do not keep the volumes of another node from being removed.
func TestSilentNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []runtime.Object
		var names []string
		for i := range workers + 1 {
			node := newNode(func(n *corev1.Node) {
				n.Name, n.Labels[corev1.LabelHostname] = fmt.Sprint("n", i), fmt.Sprint("host", i)
			})
			claim := newClaim(func(c *corev1.PersistentVolumeClaim) { c.UID = types.UID(fmt.Sprintf("%s%d", uid[:len(uid)-1], i)) })
			pv, err := newVolume(claim, newClass(), node)
			if err != nil {
				t.Fatal(err)
			}
			pv.UID, pv.Status.Phase = types.UID(node.Name), corev1.VolumeReleased
			objects, names = append(objects, node, pv), append(names, pv.Name)
		}
		w := newWorld(t, objects...)
		silent := silence{}
		for i := range workers {
			silent[fmt.Sprint("n", i)] = true
		}
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api.example.com", Transport: silent})
		if err != nil {
			t.Fatal(err)
		}
		w.k.remove = (&keeper{client: client}).askNode
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { w.k.volumeLoop.Run(ctx) })
		for _, name := range names[:workers] {
			w.k.volumeLoop.Add(name)
		}
		synctest.Wait() // each worker waits for an agent
		w.k.volumeLoop.Add(names[workers])
		time.Sleep(askTime)
		synctest.Wait()
		for i, name := range names {
			if left := w.volume(name) != nil; left != (i < workers) {
				t.Errorf("volume %d is left: %t", i, left)
			}
		}
		if told := w.told(); !strings.Contains(told, "Warning VolumeFailedDelete node n0: ") || !strings.Contains(told, context.DeadlineExceeded.Error()) {
			t.Errorf("told %q", told)
		}
		cancel()
		ended.Wait()
	})
}

// A claim that was refused because of its class is met when that is made anew. The claims of other classes and
// provisioners are not looked at.
func TestClassMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		immediate := newClass(func(c *storagev1.StorageClass) { c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate) })
		client := fake.NewClientset(immediate, newNode(), newClaim())
		shared := informers.NewSharedInformerFactory(client, 0)
		k := build(client, shared, Config{}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		shared.Start(ctx.Done())
		go func() { done <- k.Run(ctx) }()
		time.Sleep(time.Minute) // of the bubble: all that goes on has ended
		synctest.Wait()
		volumes := func() int {
			list, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return len(list.Items)
		}
		if n := volumes(); n != 0 {
			t.Errorf("%d volumes of a class that is refused", n)
		}
		classes := client.StorageV1().StorageClasses()
		if err := classes.Delete(ctx, immediate.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := classes.Create(ctx, newClass(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := volumes(); n != 1 {
			t.Errorf("%d volumes of the new class", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		shared.Shutdown()
	})
	w := newWorld(t, newClass(), newClaim(),
		newClaim(func(c *corev1.PersistentVolumeClaim) {
			c.Name, c.Spec.StorageClassName = "of-another-class", ptr.To("other")
		}),
		newClaim(func(c *corev1.PersistentVolumeClaim) {
			c.Name, c.Annotations = "of-another", map[string]string{volume.AnnStorageProvisioner: "example.com/p"}
		}))
	for class, want := range map[*storagev1.StorageClass]int{
		nil: 0, newClass(func(c *storagev1.StorageClass) { c.Provisioner = "example.com/p" }): 0, newClass(): 1,
	} {
		w.restart()
		if w.k.classChanged(nil, class); w.k.claimLoop.Len() != want {
			t.Errorf("%+v: %d claims are looked at, want %d", class, w.k.claimLoop.Len(), want)
		}
	}
}

// A node that does not say where its volumes are makes none foreign: the removal is tried again, and done when it does.
func TestNodeWithoutPlace(t *testing.T) {
	silent := newNode(func(n *corev1.Node) { n.Annotations = nil })
	w := newWorld(t, silent, releasedVolume(t))
	if err := w.k.syncVolume(t.Context(), name); err == nil || errors.Is(err, errForeign) {
		t.Errorf("%v, want an error that is tried again", err)
	}
	want := "Warning VolumeFailedDelete node n1 does not say where its local volumes are: annotation " + localvolumes.Annotation + " is missing"
	if told := w.told(); told != want || len(w.removed) > 0 || w.volume(name) == nil {
		t.Errorf("told %q, asked %v", told, w.removed)
	}
	if err := w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), newNode(), ""); err != nil {
		t.Fatal(err)
	}
	w.refresh()
	if err := w.k.syncVolume(t.Context(), name); err != nil || w.volume(name) != nil {
		t.Errorf("%v, left %+v", err, w.volume(name))
	}
	// A volume that a user wrote gains nothing by such a node.
	w = newWorld(t, silent, releasedVolume(t, func(v *corev1.PersistentVolume) { v.Spec.Local.Path = "/" + name }))
	if err := w.k.syncVolume(t.Context(), name); err == nil || len(w.removed) > 0 || w.volume(name) == nil {
		t.Errorf("%v, asked %v", err, w.removed)
	}
}

// The provisioner works on informers, and leaves nothing behind.
func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	client := fake.NewClientset(newClass(), newNode(), newClaim())
	shared := informers.NewSharedInformerFactory(client, 0)
	runner, err := New(&controller.Context{Client: client, Informers: shared, Logger: slog.New(slog.DiscardHandler), Config: []byte(`{"storageClass":"made"}`)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop, done := make(chan struct{}), make(chan error, 1)
	shared.Start(stop)
	go func() { done <- runner.Run(ctx) }()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		_, err := client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		_, err2 := client.StorageV1().StorageClasses().Get(ctx, "made", metav1.GetOptions{})
		if err == nil && err2 == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no volume or no class: %v, %v", err, err2)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(stop)
	shared.Shutdown()
}
