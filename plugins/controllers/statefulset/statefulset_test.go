package statefulset

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/consistency"
)

func retain(whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: whenDeleted, WhenScaled: whenScaled}
	}
}

func (w *world) names() string {
	w.Helper()
	var names []string
	for _, p := range w.pods() {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (w *world) once() {
	w.Helper()
	w.Refresh()
	if err := w.sync(); err != nil {
		w.Fatal(err)
	}
}

func TestOrderOfCreationAndEnd(t *testing.T) {
	w := newWorld(t, newSet(3, func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }))
	for _, want := range []string{"web-5", "web-5 web-6", "web-5 web-6 web-7"} {
		w.once()
		w.once() // it waits for the last one
		if got := w.names(); got != want {
			t.Fatalf("pods %s, want %s", got, want)
		}
		w.nodes()
	}
	w.settle()
	w.change(scale(1))
	for _, want := range []string{"web-7", "web-6"} {
		w.once()
		w.once()
		for _, p := range w.pods() {
			if terminating(&p) != (p.Name == want) {
				t.Fatalf("%s: %v; %s should end", p.Name, p.DeletionTimestamp, want)
			}
		}
		w.nodes()
	}
	if told := w.Told(); !strings.Contains(told, "Normal SuccessfulCreate Create Pod web-5 in StatefulSet web successful") ||
		!strings.Contains(told, "Normal SuccessfulDelete Delete Pod web-7 in StatefulSet web successful") {
		t.Error(told)
	}
}

func TestParallelMakesAllAtOnce(t *testing.T) {
	w := newWorld(t, newSet(5, parallel))
	w.once()
	if got := w.names(); got != "web-0 web-1 web-2 web-3 web-4" {
		t.Errorf("pods %s", got)
	}
	w.settle()
	w.change(scale(0))
	w.once()
	for _, p := range w.pods() {
		if !terminating(&p) {
			t.Errorf("%s waits", p.Name)
		}
	}
}

// A set that asks for two thousand million pods costs as much as its burst.
func TestBurst(t *testing.T) {
	w := newWorld(t, newSet(math.MaxInt32, parallel, func(s *appsv1.StatefulSet) {
		s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: math.MaxInt32}
	}))
	w.once()
	if got := len(w.pods()); got != burst {
		t.Errorf("%d pods", got)
	}
	w.change(func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement })
	w.once()
	if got := len(w.pods()); got != burst {
		t.Errorf("%d pods after a sync in order", got)
	}
}

func TestIdentity(t *testing.T) {
	w := newWorld(t, newSet(1, withClaims))
	w.settle()
	p := w.pod("web-0")
	if p.Spec.Hostname != "web-0" || p.Spec.Subdomain != "headless" || p.GenerateName != "web-" || !metav1.IsControlledBy(p, w.set()) {
		t.Errorf("%+v", p)
	}
	if l := p.Labels; l[appsv1.StatefulSetPodNameLabel] != "web-0" || l[appsv1.PodIndexLabel] != "0" || l[appsv1.ControllerRevisionHashLabelKey] != w.set().Status.UpdateRevision || l["app"] != "web" {
		t.Errorf("labels %v", l)
	}
	if v := p.Spec.Volumes; len(v) != 1 || v[0].PersistentVolumeClaim.ClaimName != "data-web-0" {
		t.Errorf("volumes %+v", v)
	}
	if len(webLabels) != 1 {
		t.Errorf("the template's labels became %v", webLabels)
	}
	delete(p.Labels, appsv1.StatefulSetPodNameLabel)
	w.Put(p)
	w.settle()
	if got := w.pod("web-0").Labels[appsv1.StatefulSetPodNameLabel]; got != "web-0" {
		t.Errorf("the label that was removed is %q", got)
	}
}

func TestOrdinals(t *testing.T) {
	set := newSet(3)
	for name, want := range map[string]int{
		"web-0": 0, "web-12": 12, "web-2147483648": 1 << 31, "web-01": -1, "web-": -1, "web--1": -1, "web-+1": -1, "web": -1,
		"webs-1": -1, "other-web-1": -1, "web-1-1": -1, "web-99999999999999999999": -1, "web-1a": -1,
	} {
		n, yes := ordinalOf(set, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if yes != (want >= 0) || yes && n != want {
			t.Errorf("%s: %d %v", name, n, yes)
		}
	}
}

func TestAdoptionAndRelease(t *testing.T) {
	bare := func(name string) *corev1.Pod {
		return ready(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "bare", Labels: webLabels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v0"}}}}, time.Unix(0, 0))
	}
	w := newWorld(t, newSet(1), bare("web-0"), bare("web-00"), bare("stranger"))
	w.once()
	for name, mine := range map[string]bool{"web-0": true, "web-00": false, "stranger": false} {
		if metav1.IsControlledBy(w.pod(name), w.set()) != mine {
			t.Errorf("%s: owners %v", name, w.pod(name).OwnerReferences)
		}
	}
	w.settle()
	if p := w.pod("web-0"); p.UID == "bare" || p.Spec.Containers[0].Image != "v1" {
		t.Errorf("an adopted pod without a revision stays: %+v", p)
	}
	p := w.pod("web-0")
	p.Labels = map[string]string{"app": "other"}
	w.Put(p)
	w.Refresh()
	err := w.sync() // the name is still taken
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("the released pod's name is free: %v", err)
	}
}

func TestRolling(t *testing.T) {
	w := newWorld(t, newSet(3))
	w.settle()
	first := w.set().Status.CurrentRevision
	w.change(image("v2"))
	for _, next := range []string{"web-2", "web-1", "web-0"} {
		w.once()
		w.once()
		for _, p := range w.pods() {
			if terminating(&p) != (p.Name == next) {
				t.Fatalf("%s is next, and %s %v", next, p.Name, p.DeletionTimestamp)
			}
		}
		if s := w.set().Status; s.CurrentRevision != first || s.UpdateRevision == first {
			t.Errorf("status in the midst %+v", s)
		}
		w.nodes() // gone
		w.once()  // made again
		w.nodes() // ready
	}
	w.settle()
	if s := w.set().Status; s.CurrentRevision != s.UpdateRevision || s.CurrentReplicas != 3 || s.UpdatedReplicas != 3 || s.ObservedGeneration != 2 {
		t.Errorf("in the end %+v", s)
	}
	w.change(image("v1")) // the revision is there: it gets the next number
	w.settle()
	if got := w.revisions(); len(got) != 2 || w.set().Status.CurrentRevision != first {
		t.Errorf("%d revisions, current %s", len(got), w.set().Status.CurrentRevision)
	}
}

func TestPartitionAndOnDelete(t *testing.T) {
	w := newWorld(t, newSet(3, func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To[int32](2) }))
	w.settle()
	images := func() string {
		return w.pod("web-0").Spec.Containers[0].Image + w.pod("web-1").Spec.Containers[0].Image + w.pod("web-2").Spec.Containers[0].Image
	}
	kill := func(name string) {
		p := w.pod(name)
		p.DeletionTimestamp = ptr.To(metav1.Now())
		w.Put(p)
		w.settle()
	}
	w.change(image("v2"))
	w.settle()
	kill("web-0")
	if got := images(); got != "v1v1v2" {
		t.Errorf("behind the partition %s", got)
	}
	w.change(func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	})
	w.settle()
	if got := images(); got != "v1v1v2" {
		t.Errorf("OnDelete deletes: %s", got)
	}
	kill("web-0")
	if got := images(); got != "v2v1v2" {
		t.Errorf("OnDelete, one deleted: %s", got)
	}
}

// A pod that never became ready holds back its update until it is deleted by
// hand: the forced rollback of upstream's documentation.
func TestForcedRollback(t *testing.T) {
	w := newWorld(t, newSet(2))
	w.settle()
	w.change(image("broken"))
	w.once()
	w.nodes()
	w.once() // web-1 is made and stays pending
	w.change(image("v1"))
	for range 5 {
		w.once()
	}
	if p := w.pod("web-1"); terminating(p) || p.Spec.Containers[0].Image != "broken" {
		t.Fatalf("%+v", p)
	}
	p := w.pod("web-1")
	p.DeletionTimestamp = ptr.To(metav1.Now())
	w.Put(p)
	w.settle()
	if got := w.pod("web-1").Spec.Containers[0].Image; got != "v1" {
		t.Errorf("image %s", got)
	}
}

func TestHistoryLimit(t *testing.T) {
	w := newWorld(t, newSet(1, func(s *appsv1.StatefulSet) { s.Spec.RevisionHistoryLimit = ptr.To[int32](2) }))
	w.settle()
	for i := range 6 {
		w.change(image(fmt.Sprint("x", i)))
		w.settle()
	}
	if got := len(w.revisions()); got != 3 {
		t.Errorf("%d revisions", got)
	}
}

func TestMinReadySeconds(t *testing.T) {
	w := newWorld(t, newSet(2, func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 10 }))
	w.once()
	w.nodes()
	w.once()
	if s := w.set().Status; s.ReadyReplicas != 1 || s.AvailableReplicas != 0 || w.names() != "web-0" {
		t.Errorf("%s, %+v", w.names(), s)
	}
	w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
	w.once()
	if s := w.set().Status; s.AvailableReplicas != 1 || w.names() != "web-0 web-1" {
		t.Errorf("%s, %+v", w.names(), s)
	}
}

func TestSetThatIsBeingDeletedOnlyCounts(t *testing.T) {
	w := newWorld(t, newSet(3))
	w.settle()
	w.change(func(s *appsv1.StatefulSet) { scale(5)(s); s.DeletionTimestamp = ptr.To(metav1.Now()) })
	w.settle()
	if w.names() != "web-0 web-1 web-2" || w.set().Status.ObservedGeneration != 2 {
		t.Errorf("%s, %+v", w.names(), w.set().Status)
	}
}

const (
	keepClaims   = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	deleteClaims = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
)

func TestRetentionPolicy(t *testing.T) {
	for _, tt := range []struct {
		whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType
		kept, scaled            string // owners of the claims of web-0, and of web-1, which is scaled away
	}{
		{keepClaims, keepClaims, "", ""},
		{deleteClaims, keepClaims, "StatefulSet", "StatefulSet"},
		{keepClaims, deleteClaims, "", "Pod"},
		{deleteClaims, deleteClaims, "StatefulSet", "Pod"},
	} {
		t.Run(fmt.Sprintf("%s %s", tt.whenDeleted, tt.whenScaled), func(t *testing.T) {
			w := newWorld(t, newSet(2, withClaims, retain(tt.whenDeleted, tt.whenScaled)))
			w.settle()
			w.change(scale(1))
			w.once()
			w.once()
			for name, want := range map[string]string{"data-web-0": tt.kept, "data-web-1": tt.scaled} {
				got := ""
				for _, c := range w.claims() {
					for _, r := range c.OwnerReferences {
						if c.Name == name {
							got += r.Kind
						}
						if r.Controller == nil || !*r.Controller {
							t.Errorf("%+v does not control", r)
						}
					}
				}
				if got != want {
					t.Errorf("%s is owned by %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestClaimsThatStandInTheWay(t *testing.T) {
	claim := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-0", Namespace: "default", UID: "claim"}}
		change(c)
		return c
	}
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x", Controller: ptr.To(true)}
	for name, tt := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		made  bool
		err   string
		event string
	}{
		"one that is there is used": {claim(func(*corev1.PersistentVolumeClaim) {}), true, "", ""},
		"one that is being deleted is waited for": {claim(func(c *corev1.PersistentVolumeClaim) {
			c.DeletionTimestamp, c.Finalizers = ptr.To(metav1.Now()), []string{"kubernetes.io/pvc-protection"}
		}), false, "pvc data-web-0 is being deleted", "FailedCreate"},
		"that of an earlier pod is waited for": {claim(func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "earlier"}}
		}), false, "", ""},
		"another owner keeps it": {claim(func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = []metav1.OwnerReference{other} }), true, "", "ConflictingController"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newSet(1, withClaims, retain(deleteClaims, deleteClaims)), tt.claim)
			w.Refresh()
			err := w.sync()
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("sync: %v", err)
			}
			if (w.names() == "web-0") != tt.made {
				t.Errorf("pods %q", w.names())
			}
			if told := w.Told(); !strings.Contains(told, tt.event) {
				t.Errorf("told %s", told)
			}
			if name == "another owner keeps it" {
				w.settle()
				if got := w.claims()[0].OwnerReferences; len(got) != 1 || got[0].UID != "x" {
					t.Errorf("owners %+v", got)
				}
			}
		})
	}
}

// A quota that refuses in the midst, and a webhook that refuses every second
// write: what was made stays, each sync asks for one pod, and in the end all are there.
func TestRefusals(t *testing.T) {
	for name, policy := range map[string]func(*appsv1.StatefulSet){"ordered": func(*appsv1.StatefulSet) {}, "parallel": parallel} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newSet(4, policy))
			quota := true
			w.Client.PrependReactor("create", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
				if quota && len(w.pods()) >= 2 {
					return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("exceeded quota: q"))
				}
				return false, nil, nil
			})
			for range 6 {
				w.Refresh()
				if err := w.sync(); err != nil && !apierrors.IsForbidden(err) {
					t.Fatal(err)
				}
				w.nodes()
			}
			if len(w.pods()) != 2 || w.set().Status.Replicas != 2 {
				t.Errorf("under the quota:\n%s", w.picture())
			}
			if told := w.Told(); !strings.Contains(told, " in StatefulSet web failed error: pods \"web\" is forbidden: exceeded quota: q") || !strings.Contains(told, "Warning FailedCreate Create Pod web-") {
				t.Error(told)
			}
			quota = false
			n := 0
			w.Client.PrependReactor("*", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
				if n++; w.Working() && n%2 == 0 && a.GetVerb() != "get" && a.GetVerb() != "list" {
					return true, nil, apierrors.NewInternalError(errors.New("webhook"))
				}
				return false, nil, nil
			})
			w.settle()
			if w.names() != "web-0 web-1 web-2 web-3" {
				t.Errorf("in the end:\n%s", w.picture())
			}
		})
	}
}

type behind string

func (b behind) LastStoreSyncResourceVersion() string { return string(b) }

// A cache that does not show what was written holds the set back, and no write happens.
func TestStaleCache(t *testing.T) {
	w := newWorld(t, newSet(3))
	w.settle()
	w.k.written = consistency.New(map[string]consistency.Cache{podResource: behind("5")})
	w.k.written.Wrote(key, "set", podResource, &metav1.ObjectMeta{ResourceVersion: "6"})
	w.change(image("v2"))
	w.Refresh()
	before := w.Writes
	if err := w.sync(); err == nil || w.Writes != before {
		t.Errorf("%v, %d writes", err, w.Writes-before)
	}
}

// Revisions that someone else wrote give a pod template and nothing else.
func TestForgedRevision(t *testing.T) {
	set := newSet(2)
	r := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(
		`{"metadata":{"namespace":"kube-system","name":"evil","uid":"evil"},"spec":{"replicas":9,"serviceName":"evil","template":{"$patch":"replace","spec":{"nodeName":"n"}}}}`)}}
	got, err := restore(set, r)
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.Template.Spec.NodeName != "n" {
		t.Errorf("template %+v", got.Spec.Template)
	}
	got.Spec.Template = set.Spec.Template
	if fmt.Sprint(got) != fmt.Sprint(set) {
		t.Errorf("%v\nwant %v", got, set)
	}
	for _, data := range []string{``, `null`, `[]`, `{"spec":{"template":7}}`, `{"spec":null`} {
		r.Data.Raw = []byte(data)
		if got, err := restore(set, r); err == nil && got.Namespace != set.Namespace {
			t.Errorf("%q: %v", data, got)
		}
	}
}

// A new default of the API server starts no rollout.
func TestSemanticComparison(t *testing.T) {
	for _, known := range []bool{true, false} {
		w := newWorld(t, newSet(1))
		w.settle()
		before := w.set().Status.UpdateRevision
		w.Client.PrependReactor("create", "podtemplates", func(a k8stesting.Action) (bool, runtime.Object, error) {
			c := a.(k8stesting.CreateActionImpl)
			if !slices.Equal(c.CreateOptions.DryRun, []string{metav1.DryRunAll}) {
				t.Error("a pod template is written")
			}
			if !known {
				return true, nil, apierrors.NewForbidden(corev1.Resource("podtemplates"), "", nil)
			}
			template := c.Object.(*corev1.PodTemplate)
			template.Template.Spec.SchedulerName = "default-scheduler"
			return true, template, nil
		})
		w.change(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SchedulerName = "default-scheduler" })
		w.settle()
		if same := w.set().Status.UpdateRevision == before; same != known {
			t.Errorf("defaults known %v: the same revision %v", known, same)
		}
	}
}

func TestConfig(t *testing.T) {
	for data, want := range map[string]int{
		"": 5, "{}": 5, `{"concurrentStatefulSetSyncs":7}`: 7, `{"concurrentStatefulSetSyncs":0}`: 0, `{"concurrentStatefulSetSyncs":-1}`: 0,
		`{"concurrentStatefulSetSyncs":100000}`: 0, `{"x":1}`: 0, `{`: 0,
	} {
		c, err := readConfig([]byte(data))
		if (err == nil) != (want > 0) || err == nil && c.ConcurrentStatefulSetSyncs != want {
			t.Errorf("%q: %+v, %v", data, c, err)
		}
	}
}

// TestGoneBefore: a pod that is gone when it is to be deleted counts as deleted.
func TestGoneBefore(t *testing.T) {
	set := newSet(1)
	w := newWorld(t, set)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "default", UID: "gone"}}
	if err := w.k.deletePod(t.Context(), set, pod); err != nil {
		t.Error(err)
	}
	if told := w.Told(); !strings.Contains(told, "SuccessfulDelete") {
		t.Errorf("events: %q", told)
	}
}
