package persistentvolumebinder

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/controller"
)

// life is what claims and volumes go through in the test of crashes.
func life(w *world) {
	w.settle()
	w.Remove(w.claim("small"))
	w.settle()
	w.Put(newClaim("small", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.UID = "another" })) // of the same name
	w.Put(newVolume("pv-kept", "1Gi", keptFor("kept", "")))
	w.settle()
	w.Remove(w.claim("made"))
	w.Put(newClaim("kept", "1Gi"))
	w.settle()
	w.Put(newClass("standard", "example.com/p", byDefault))
	w.settle()
	w.Put(newVolume("pv-named", "2Gi"))
	w.settle()
	w.Remove(w.volume("pv-named"))
	w.settle()
}

// A controller that dies before any of its writes, and is started anew, ends where one ends
// that lives.
func TestCrashAtEachWrite(t *testing.T) {
	begin := func() *world {
		return newWorld(t, newClass("fast", "example.com/p"),
			newVolume("pv-1", "1Gi"), newVolume("pv-2", "2Gi"), newVolume("pv-9", "9Gi"),
			newClaim("small", "1Gi"), newClaim("large", "5Gi"), newClaim("made", "1Gi", ofClass("fast")), newClaim("named", "1Gi", naming("pv-named")),
			newClaim("none", "6Gi", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }))
	}
	w := begin()
	life(w)
	want, writes := w.picture(), w.Writes
	if writes < 30 {
		t.Fatalf("%d writes only:\n%s", writes, want)
	}
	for _, line := range []string{
		"claim small another of \"\": Bound pv-2 2Gi", "claim large uid-large of \"\": Bound pv-9 9Gi", "claim kept uid-kept of \"\": Bound pv-kept",
		"claim named uid-named of \"\": Lost pv-named", "claim none uid-none of \"standard\": Bound pvc-uid-none 7Gi", "volume pv-1: Released small uid-small",
	} {
		if !strings.Contains(want, line) {
			t.Errorf("no %q in\n%s", line, want)
		}
	}
	if strings.Contains(want, "uid-made") {
		t.Errorf("the volume of a claim that is gone is still there:\n%s", want)
	}
	for n := 1; n <= writes; n++ {
		w := begin()
		w.DieAt = n
		life(w)
		if got := w.picture(); got != want {
			t.Fatalf("dead at write %d of %d:\n%s\nwant\n%s", n, writes, got, want)
		}
	}
}

// Which of several volumes a claim gets (STO-2 and the rules of kube-controller-manager).
func TestMatching(t *testing.T) {
	modes := func(m ...corev1.PersistentVolumeAccessMode) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { v.Spec.AccessModes = m }
	}
	block := ptr.To(corev1.PersistentVolumeBlock)
	tests := []struct {
		name    string
		claim   *corev1.PersistentVolumeClaim
		volumes []*corev1.PersistentVolume
		delay   bool
		want    string
	}{
		{name: "none", claim: newClaim("c", "1Gi")},
		{name: "the smallest that is large enough", claim: newClaim("c", "2Gi"), volumes: []*corev1.PersistentVolume{newVolume("five", "5Gi"), newVolume("three", "3Gi"), newVolume("one", "1Gi")}, want: "three"},
		{name: "all are too small", claim: newClaim("c", "2Gi"), volumes: []*corev1.PersistentVolume{newVolume("one", "1Gi")}},
		{name: "fewest other access modes before size", claim: newClaim("c", "1Gi"), volumes: []*corev1.PersistentVolume{
			newVolume("many", "1Gi", modes(corev1.ReadWriteOnce, corev1.ReadWriteMany)), newVolume("one", "8Gi")}, want: "one"},
		{name: "more modes, where no other is there", claim: newClaim("c", "1Gi"), volumes: []*corev1.PersistentVolume{newVolume("many", "1Gi", modes(corev1.ReadWriteMany, corev1.ReadWriteOnce))}, want: "many"},
		{name: "another access mode", claim: newClaim("c", "1Gi"), volumes: []*corev1.PersistentVolume{newVolume("ro", "1Gi", modes(corev1.ReadOnlyMany))}},
		{name: "kept for it by name, though larger", claim: newClaim("c", "1Gi"), volumes: []*corev1.PersistentVolume{newVolume("one", "1Gi"), newVolume("kept", "50Gi", keptFor("c", ""))}, want: "kept"},
		{name: "kept for it, but too small", claim: newClaim("c", "2Gi"), volumes: []*corev1.PersistentVolume{newVolume("kept", "1Gi", keptFor("c", "")), newVolume("three", "3Gi")}, want: "three"},
		{name: "kept for another", claim: newClaim("c", "1Gi"), volumes: []*corev1.PersistentVolume{newVolume("kept", "1Gi", keptFor("d", ""))}},
		{name: "bound to one of its name that is gone", claim: newClaim("c", "1Gi"), volumes: []*corev1.PersistentVolume{newVolume("old", "1Gi", keptFor("c", "uid-before"))}},
		{name: "of another class", claim: newClaim("c", "1Gi", ofClass("fast")), volumes: []*corev1.PersistentVolume{newVolume("one", "1Gi")}},
		{name: "of its class by the old annotation", claim: newClaim("c", "1Gi", ofClass("fast")), volumes: []*corev1.PersistentVolume{newVolume("one", "1Gi", annotated(corev1.BetaStorageClassAnnotation, "fast"))}, want: "one"},
		{name: "block for files", claim: newClaim("c", "1Gi"), volumes: []*corev1.PersistentVolume{newVolume("one", "1Gi", func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = block })}},
		{name: "block for block", claim: newClaim("c", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = block }), volumes: []*corev1.PersistentVolume{newVolume("file", "1Gi"), newVolume("raw", "2Gi", func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = block })}, want: "raw"},
		{name: "by labels", claim: newClaim("c", "1Gi", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
		}), volumes: []*corev1.PersistentVolume{newVolume("one", "1Gi"), newVolume("ssd", "2Gi", func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"disk": "ssd"} })}, want: "ssd"},
		{name: "of another VolumeAttributesClass", claim: newClaim("c", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") }), volumes: []*corev1.PersistentVolume{newVolume("one", "1Gi")}},
		{name: "of its VolumeAttributesClass", claim: newClaim("c", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") }), volumes: []*corev1.PersistentVolume{newVolume("one", "1Gi", func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("gold") })}, want: "one"},
		{name: "on its way out", claim: newClaim("c", "1Gi"), volumes: []*corev1.PersistentVolume{newVolume("going", "1Gi", func(v *corev1.PersistentVolume) {
			v.DeletionTimestamp, v.Finalizers = ptr.To(metav1.Now()), []string{"x/y"}
		})}},
		{name: "released", claim: newClaim("c", "1Gi"), volumes: []*corev1.PersistentVolume{newVolume("used", "1Gi", func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased })}},
		{name: "the scheduler's to choose", delay: true, claim: newClaim("c", "1Gi"), volumes: []*corev1.PersistentVolume{newVolume("one", "1Gi")}},
		{name: "chosen by the scheduler", delay: true, claim: newClaim("c", "1Gi"), volumes: []*corev1.PersistentVolume{newVolume("one", "1Gi"), newVolume("two", "2Gi", keptFor("c", "uid-c"))}, want: "two"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			for _, v := range tt.volumes {
				v.ResourceVersion = "1"
				w.k.volumes.put(v)
			}
			got, err := w.k.match(tt.claim, tt.delay)
			if err != nil {
				t.Fatal(err)
			}
			if name := ptr.Deref(got, corev1.PersistentVolume{}).Name; name != tt.want {
				t.Errorf("%q, want %q", name, tt.want)
			}
		})
	}
}

// What claims and volumes come to, and what is said about it, in the words of Kubernetes 1.36.
func TestPhases(t *testing.T) {
	bound := func(c *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnBindCompleted, "yes")
		c.Status.Phase = corev1.ClaimBound
	}
	pod := func(name string, scheduled bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		if scheduled {
			p.Spec.NodeName = "n"
		}
		return p
	}
	inUse := func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }
	tests := []struct {
		name    string
		objects []runtime.Object
		claim   string // of the picture
		volume  string
		event   string
	}{
		{name: "no volume, no class", objects: []runtime.Object{newClaim("c", "1Gi")}, claim: "Pending", event: "Normal FailedBinding no persistent volumes available for this claim and no storage class is set"},
		{name: "named, and there", objects: []runtime.Object{newClaim("c", "1Gi", naming("pv")), newVolume("pv", "1Gi")}, claim: "Bound pv 1Gi map[pv.kubernetes.io/bind-completed:yes]", volume: "Bound c uid-c map[pv.kubernetes.io/bound-by-controller:yes]"},
		{name: "named, and not there", objects: []runtime.Object{newClaim("c", "1Gi", naming("pv"))}, claim: "Pending pv"},
		{name: "named, too small", objects: []runtime.Object{newClaim("c", "2Gi", naming("pv")), newVolume("pv", "1Gi")}, claim: "Pending pv", volume: "Available -", event: `Warning VolumeMismatch Cannot bind to requested volume "pv": requested PV is too small`},
		{name: "named, of another class", objects: []runtime.Object{newClaim("c", "1Gi", naming("pv"), ofClass("x")), newVolume("pv", "1Gi")}, claim: "Pending pv", event: `Cannot bind to requested volume "pv": storageClassName does not match`},
		{name: "named, another's", objects: []runtime.Object{newClaim("c", "1Gi", naming("pv")), newVolume("pv", "1Gi", keptFor("d", "uid-d")), newClaim("d", "1Gi", naming("pv"), bound)}, claim: "Pending pv", event: `Warning FailedBinding volume "pv" already bound to a different claim.`},
		{name: "kept for it", objects: []runtime.Object{newClaim("c", "1Gi"), newVolume("pv", "1Gi", keptFor("c", ""))}, claim: "Bound pv 1Gi map[pv.kubernetes.io/bind-completed:yes pv.kubernetes.io/bound-by-controller:yes]", volume: "Bound c uid-c map[]"},
		{name: "lost its volume", objects: []runtime.Object{newClaim("c", "1Gi", naming("pv"), bound)}, claim: "Lost pv", event: "Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!"},
		{name: "lost its reference", objects: []runtime.Object{newClaim("c", "1Gi", bound)}, claim: "Lost", event: "Warning ClaimLost Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"},
		{name: "two of one volume", objects: []runtime.Object{newClaim("c", "1Gi", naming("pv"), bound), newVolume("pv", "1Gi", keptFor("d", "uid-d")), newClaim("d", "1Gi", naming("pv"), bound)}, claim: "Lost pv", event: "Warning ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly"},
		{name: "claim gone, Retain", objects: []runtime.Object{newVolume("pv", "1Gi", keptFor("c", "uid-c"), inUse)}, volume: "Released c uid-c"},
		{name: "claim gone, Recycle", objects: []runtime.Object{newVolume("pv", "1Gi", keptFor("c", "uid-c"), inUse, policy(corev1.PersistentVolumeReclaimRecycle))}, volume: "Failed c uid-c", event: "Warning VolumeFailedRecycle No recycler plugin found for the volume!"},
		{name: "claim gone, Recycle, in use", objects: []runtime.Object{pod("p", true), newVolume("pv", "1Gi", keptFor("c", "uid-c"), inUse, policy(corev1.PersistentVolumeReclaimRecycle))}, volume: "Released c uid-c", event: "Normal VolumeFailedRecycle Volume is used by pods: default/p"},
		{name: "claim gone, Delete, by hand", objects: []runtime.Object{newVolume("pv", "1Gi", keptFor("c", "uid-c"), inUse, policy(corev1.PersistentVolumeReclaimDelete))}, volume: "Failed c uid-c", event: `Warning VolumeFailedDelete error getting deleter volume plugin for volume "pv": no deletable volume plugin matched`},
		{name: "claim gone, Delete, a provisioner's", objects: []runtime.Object{newVolume("pv", "1Gi", keptFor("c", "uid-c"), inUse, policy(corev1.PersistentVolumeReclaimDelete), annotated(volume.AnnDynamicallyProvisioned, "other.example/p"))}, volume: "Released c uid-c"},
		{name: "claim gone, another of its name", objects: []runtime.Object{newVolume("pv", "1Gi", keptFor("c", "uid-before"), inUse), newClaim("c", "1Gi")}, claim: "Pending", volume: "Released c uid-before"},
		{name: "unknown policy", objects: []runtime.Object{newVolume("pv", "1Gi", keptFor("c", "uid-c"), inUse, policy("Burn"))}, volume: "Failed c uid-c", event: "Warning VolumeUnknownReclaimPolicy Volume has unrecognized PersistentVolumeReclaimPolicy"},
		{name: "bound to a claim that has another", objects: []runtime.Object{newClaim("c", "1Gi", naming("other"), bound), newVolume("other", "1Gi", keptFor("c", "uid-c")), newVolume("pv", "1Gi", keptFor("c", "uid-c"), annotated(volume.AnnBoundByController, "yes"))}, claim: "Bound other", volume: "Available -"},
		{name: "the same, by the user", objects: []runtime.Object{newClaim("c", "1Gi", naming("other"), bound), newVolume("other", "1Gi", keptFor("c", "uid-c")), newVolume("pv", "1Gi", keptFor("c", "uid-c"))}, claim: "Bound other", volume: "Available c "},
		{name: "of another mode", objects: []runtime.Object{newClaim("c", "1Gi"), newVolume("pv", "1Gi", keptFor("c", "uid-c"), func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })}, claim: "Pending", event: `Warning VolumeMismatch Cannot bind PersistentVolume to requested PersistentVolumeClaim "c" due to incompatible volumeMode.`},
		{name: "waits for a pod", objects: []runtime.Object{newClaim("c", "1Gi", ofClass("late")), newClass("late", "example.com/p", waits)}, claim: "Pending", event: "Normal WaitForFirstConsumer waiting for first consumer to be created before binding"},
		{name: "waits for its pod", objects: []runtime.Object{newClaim("c", "1Gi", ofClass("late")), newClass("late", "example.com/p", waits), pod("p", false)}, claim: "Pending", event: "Normal WaitForPodScheduled waiting for pod p to be scheduled"},
		{name: "waits for its pods", objects: []runtime.Object{newClaim("c", "1Gi", ofClass("late")), newClass("late", "example.com/p", waits), pod("p", false), pod("o", false), pod("n", true)}, claim: "Pending", event: "Normal WaitForPodScheduled waiting for pods o,p to be scheduled"},
		{name: "waited, on a node", objects: []runtime.Object{newClaim("c", "1Gi", ofClass("late"), func(c *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, "n")
		}), newClass("late", "example.com/p", waits)}, claim: "Bound pvc-uid-c 7Gi", event: "Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'example.com/p' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."},
		{name: "its class is gone", objects: []runtime.Object{newClaim("c", "1Gi", ofClass("gone"))}, claim: "Pending", event: `Warning ProvisioningFailed storageclass.storage.k8s.io "gone" not found`},
		{name: "no provisioner by name", objects: []runtime.Object{newClaim("c", "1Gi", ofClass("no")), newClass("no", "kubernetes.io/no-provisioner")}, claim: "Pending", event: "Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner"},
		{name: "migrated to CSI", objects: []runtime.Object{newClaim("c", "1Gi", ofClass("ebs")), newClass("ebs", "kubernetes.io/aws-ebs")}, claim: "Pending  0 map[volume.beta.kubernetes.io/storage-provisioner:ebs.csi.aws.com", event: "external provisioner 'ebs.csi.aws.com'"},
		{name: "the default class, later", objects: []runtime.Object{newClaim("c", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }),
			newClass("old", "example.com/p", byDefault), newClass("new", "example.com/p", byDefault, func(c *storagev1.StorageClass) { c.CreationTimestamp = metav1.Unix(99, 0) })}, claim: "Bound pvc-uid-c 7Gi"},
		{name: "no class by the user's wish", objects: []runtime.Object{newClaim("c", "1Gi"), newClass("old", "example.com/p", byDefault)}, claim: "Pending", event: "Normal FailedBinding"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.objects...)
			for i := range 6 {
				w.Refresh()
				_ = w.pass(i%2 == 0) // one of another's volume fails by design
				w.provisioner("example.com/p")
			}
			lines := w.picture()
			if c := w.claim("c"); tt.claim != "" && (c == nil || !strings.Contains(lines, fmt.Sprintf("claim c uid-c of %q: %s", ptr.Deref(c.Spec.StorageClassName, "none"), tt.claim))) {
				t.Errorf("claim %q is not in\n%s", tt.claim, lines)
			}
			if tt.volume != "" && !strings.Contains(lines, "volume pv: "+tt.volume) {
				t.Errorf("volume %q is not in\n%s", tt.volume, lines)
			}
			if told := w.Told(); !strings.Contains(told, tt.event) || tt.event == "" && strings.Contains(told, "Warning") {
				t.Errorf("told\n%s\nwant %q", told, tt.event)
			}
			if c := w.claim("c"); tt.name == "the default class, later" && *c.Spec.StorageClassName != "new" {
				t.Errorf("got class %s", *c.Spec.StorageClassName)
			}
		})
	}
}

// Two controllers, or one with old caches, give one volume to one claim.
func TestRace(t *testing.T) {
	w := newWorld(t, newVolume("pv", "1Gi"), newClaim("a", "1Gi"), newClaim("b", "1Gi"))
	late := w.k
	w.restart()
	if err := w.do(w.k.syncClaimKey, "default/a"); err != nil {
		t.Fatal(err)
	}
	late.recorder = w.Events
	err := w.do(late.syncClaimKey, "default/b")
	if !apierrors.IsConflict(err) {
		t.Fatalf("the late one: %v", err)
	}
	w.settle()
	if a, b := w.claim("a"), w.claim("b"); a.Status.Phase != corev1.ClaimBound || b.Status.Phase != corev1.ClaimPending || b.Spec.VolumeName != "" {
		t.Errorf("%s", w.picture())
	}
}

// A cache that lacks a claim releases no volume that the API server knows a claim of.
func TestStaleCache(t *testing.T) {
	w := newWorld(t, newVolume("pv", "1Gi", policy(corev1.PersistentVolumeReclaimDelete)))
	w.Put(newClaim("c", "1Gi", naming("pv")))
	v := w.volume("pv")
	keptFor("c", "uid-c")(v)
	w.Put(v)
	if err := w.Cache(volumesOf).Replace([]any{v}, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.do(w.k.syncVolumeKey, "pv"); err != nil {
		t.Fatal(err)
	}
	if v := w.volume("pv"); v.Status.Phase != corev1.VolumeBound {
		t.Errorf("phase %s", v.Status.Phase)
	}
	// An old version in the cache undoes nothing that was written.
	w.Refresh()
	old := w.claim("c")
	if err := w.do(w.k.syncClaimKey, "default/c"); err != nil {
		t.Fatal(err)
	}
	if err := w.Cache(claimsOf).Replace([]any{old}, ""); err != nil {
		t.Fatal(err)
	}
	before := w.Writes
	if err := w.do(w.k.syncClaimKey, "default/c"); err != nil || w.Writes != before {
		t.Errorf("%v, %d writes more", err, w.Writes-before)
	}
}

// A thousand claims get a thousand volumes, each one of its own.
func TestManyVolumes(t *testing.T) {
	const n = 1000
	var objects []runtime.Object
	for i := range n {
		objects = append(objects, newVolume(fmt.Sprintf("pv-%04d", i), fmt.Sprintf("%dMi", i+1)), newClaim(fmt.Sprintf("c-%04d", i), "1Mi"))
	}
	w := newWorld(t, objects...)
	if err := w.pass(true); err != nil {
		t.Fatal(err)
	}
	taken := map[string]types.UID{}
	for i := range n {
		c := w.claim(fmt.Sprintf("c-%04d", i))
		v := w.volume(c.Spec.VolumeName)
		if v == nil || c.Status.Phase != corev1.ClaimBound || v.Spec.ClaimRef.UID != c.UID || v.Status.Phase != corev1.VolumeBound {
			t.Fatalf("claim %s: %+v of %+v", c.Name, c.Status, v)
		}
		if other, there := taken[v.Name]; there {
			t.Fatalf("%s belongs to %s and %s", v.Name, other, c.UID)
		}
		taken[v.Name] = c.UID
	}
	if w.Writes != 4*n {
		t.Errorf("%d writes for %d claims", w.Writes, n)
	}
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"": "", `{"pvClaimBinderSyncPeriod":"1m","enableDynamicProvisioning":false}`: "",
		`{"pvClaimBinderSyncPeriod":"1ms"}`: "is not from 1s to 24h", `{"x":1}`: "unknown field", `[]`: "cannot unmarshal",
	} {
		if _, err := readConfig([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The controller works on informers, and leaves nothing behind.
func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	client := fake.NewClientset(newVolume("pv", "1Gi"), newClaim("c", "1Gi"))
	shared := informers.NewSharedInformerFactory(client, 0)
	runner, err := New(&controller.Context{Client: client, Informers: shared, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop, done := make(chan struct{}), make(chan error, 1)
	shared.Start(stop)
	go func() { done <- runner.Run(ctx) }()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		c, err := client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "c", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if c.Status.Phase == corev1.ClaimBound && c.Spec.VolumeName == "pv" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not bound: %+v", c)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(stop)
	shared.Shutdown()
}
