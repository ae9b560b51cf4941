package statefulset

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/internal/testapi"
)

const key = "default/web"

var webLabels = map[string]string{"app": "web"}

func newSet(replicas int32, changes ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "set", Generation: 1},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "headless", Selector: &metav1.LabelSelector{MatchLabels: webLabels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: webLabels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
			PodManagementPolicy: appsv1.OrderedReadyPodManagement, RevisionHistoryLimit: ptr.To[int32](10),
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](0)},
			},
		},
	}
	for _, change := range changes {
		change(set)
	}
	return set
}

func parallel(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func withClaims(s *appsv1.StatefulSet) {
	s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
}

var (
	setsGVR      = appsv1.SchemeGroupVersion.WithResource("statefulsets")
	revisionsGVR = appsv1.SchemeGroupVersion.WithResource("controllerrevisions")
	podsGVR      = corev1.SchemeGroupVersion.WithResource("pods")
	claimsGVR    = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
)

// world is an API with a cluster that starts and ends pods. A keeper works in it.
type world struct {
	*testapi.API
	k     *keeper
	clock *clocktesting.FakePassiveClock
	uids  int
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{
		API:   testapi.New(t, fake.NewClientset(objects...), false, map[string]schema.GroupVersionResource{"StatefulSet": setsGVR, "ControllerRevision": revisionsGVR, "Pod": podsGVR, "PersistentVolumeClaim": claimsGVR}),
		clock: clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0)),
	}
	w.Client.PrependReactor("create", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		obj := a.(k8stesting.CreateAction).GetObject().(metav1.Object)
		if obj.GetUID() == "" {
			w.uids++
			obj.SetUID(types.UID(fmt.Sprint("uid", w.uids)))
		}
		if pod, ok := obj.(*corev1.Pod); ok {
			pod.Status.Phase = corev1.PodPending
			w.mayCreate(pod)
		}
		return false, nil, nil
	})
	w.Client.PrependReactor("delete", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		d := a.(k8stesting.DeleteActionImpl)
		pod := w.pod(d.Name)
		if pod == nil {
			return true, nil, apierrors.NewNotFound(corev1.Resource("pods"), d.Name)
		}
		if p := d.DeleteOptions.Preconditions; w.Working() && (p == nil || p.UID == nil || *p.UID != pod.UID) {
			return true, nil, apierrors.NewConflict(corev1.Resource("pods"), d.Name, errors.New("another UID"))
		}
		if pod.DeletionTimestamp == nil {
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(w.clock.Now()))
			w.Put(pod)
		}
		return true, nil, nil
	})
	w.Client.PrependReactor("update", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		// Versions are not counted here; a patched owner makes one.
		if pod := a.(k8stesting.UpdateAction).GetObject().(*corev1.Pod); len(w.pod(pod.Name).OwnerReferences) != len(pod.OwnerReferences) {
			return true, nil, apierrors.NewConflict(corev1.Resource("pods"), pod.Name, errors.New("changed"))
		}
		return false, nil, nil
	})
	for _, verb := range []string{"create", "update", "patch", "delete"} {
		w.Dies(verb, nil)
	}
	w.Client.PrependReactor("create", "podtemplates", func(a k8stesting.Action) (bool, runtime.Object, error) {
		return true, a.(k8stesting.CreateAction).GetObject(), nil // a dry run
	})
	w.restart()
	return w
}

// restart is a new process of the controller.
func (w *world) restart() {
	w.Helper()
	shared := informers.NewSharedInformerFactory(w.Client, 0)
	k, err := build(w.Client, shared, Config{ConcurrentStatefulSetSyncs: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(k.Close)
	w.Begin(map[schema.GroupVersionResource]cache.Indexer{
		setsGVR: k.sets, podsGVR: k.pods, claimsGVR: k.claims, revisionsGVR: shared.Apps().V1().ControllerRevisions().Informer().GetIndexer(),
	})
	k.Recorder, k.clock, w.k = w.Events, w.clock, k
}

func (w *world) pod(name string) *corev1.Pod {
	return testapi.Get[*corev1.Pod](w.API, podsGVR, "default", name)
}

// all are the objects of a resource, by value.
func all[T any, P interface {
	*T
	runtime.Object
}](w *world, resource schema.GroupVersionResource) (list []T) {
	w.Helper()
	for _, o := range testapi.List[P](w.API, resource) {
		list = append(list, *o)
	}
	return list
}

func (w *world) pods() []corev1.Pod { return all[corev1.Pod](w, podsGVR) }

func (w *world) revisions() []appsv1.ControllerRevision {
	return all[appsv1.ControllerRevision](w, revisionsGVR)
}

func (w *world) claims() []corev1.PersistentVolumeClaim {
	return all[corev1.PersistentVolumeClaim](w, claimsGVR)
}

func (w *world) set() *appsv1.StatefulSet {
	w.Helper()
	set := testapi.Get[*appsv1.StatefulSet](w.API, setsGVR, "default", "web")
	if set == nil {
		w.Fatal("the set is gone")
	}
	return set
}

// change changes the set as a user does.
func (w *world) change(f func(*appsv1.StatefulSet)) {
	w.Helper()
	set := w.set()
	f(set)
	set.Generation++
	w.Put(set)
}

// mayCreate holds the promise of an ordered set: all predecessors are there and ready.
func (w *world) mayCreate(pod *corev1.Pod) {
	set := w.set()
	n, member := ordinalOf(set, pod)
	if !w.Working() || !member || set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		return
	}
	start, _ := bounds(set)
	for i := start; i < n; i++ {
		if p := w.pod(podName(set, i)); p == nil || !runningAndReady(p) || terminating(p) {
			w.Errorf("%s is made before %s is ready", pod.Name, podName(set, i))
		}
	}
	for i := range set.Spec.VolumeClaimTemplates {
		name := claimName(set, &set.Spec.VolumeClaimTemplates[i], n)
		if !slices.ContainsFunc(w.claims(), func(c corev1.PersistentVolumeClaim) bool { return c.Name == name }) {
			w.Errorf("%s is made before its claim", pod.Name)
		}
	}
}

func (w *world) sync() error {
	return w.Inside(func() error { return w.k.sync(w.Context(), key) })
}

// nodes starts pods that wait and removes those that end; it says whether it did anything.
func (w *world) nodes() (did bool) {
	w.Helper()
	for _, p := range w.pods() {
		switch {
		case p.DeletionTimestamp != nil:
			if err := w.Client.Tracker().Delete(podsGVR, "default", p.Name); err != nil {
				w.Fatal(err)
			}
			did = true
		case p.Status.Phase == corev1.PodPending:
			w.Put(ready(&p, w.clock.Now()))
			did = true
		}
	}
	return did
}

func ready(p *corev1.Pod, since time.Time) *corev1.Pod {
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}}
	return p
}

// settle goes on until nothing happens any more.
func (w *world) settle() {
	w.Helper()
	for range 300 {
		before := w.Writes
		w.Refresh()
		err := w.sync()
		if errors.Is(err, testapi.ErrDead) {
			w.restart()
			continue
		}
		if did := w.nodes(); err == nil && !did && w.Writes == before {
			return
		}
	}
	w.Fatalf("no end; %s", w.picture())
}

// picture is the state that matters, without UIDs.
func (w *world) picture() string {
	w.Helper()
	var lines []string
	for _, p := range w.pods() {
		lines = append(lines, fmt.Sprintf("pod %s %s %v %s %s", p.Name, p.Status.Phase, p.DeletionTimestamp != nil, revisionOf(&p), p.Spec.Containers[0].Image))
	}
	for _, c := range w.claims() {
		lines = append(lines, fmt.Sprintf("claim %s %d", c.Name, len(c.OwnerReferences)))
	}
	for _, r := range w.revisions() {
		lines = append(lines, fmt.Sprintf("revision %s %d", r.Name, r.Revision))
	}
	slices.Sort(lines)
	s := w.set().Status
	return strings.Join(lines, "\n") + fmt.Sprintf("\nstatus %d %d %d %d %d %s %s %d", s.Replicas, s.ReadyReplicas, s.AvailableReplicas,
		s.CurrentReplicas, s.UpdatedReplicas, s.CurrentRevision, s.UpdateRevision, s.ObservedGeneration)
}
