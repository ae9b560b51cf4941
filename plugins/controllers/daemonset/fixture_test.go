package daemonset

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

var dLabels = map[string]string{"app": "d"}

// set is a DaemonSet with the API's defaults.
func set(change func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default", UID: "set", Generation: 1},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: dLabels}, RevisionHistoryLimit: ptr.To[int32](10),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: dLabels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "one"}}}},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromInt32(1)), MaxSurge: ptr.To(intstr.FromInt32(0))},
			},
		},
	}
	if change != nil {
		change(ds)
	}
	return ds
}

// surging lets n nodes have two pods.
func surging(n int32) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromInt32(0)), MaxSurge: ptr.To(intstr.FromInt32(n))}
	}
}

func node(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}, Spec: corev1.NodeSpec{Taints: taints}}
}

var (
	noSchedule = corev1.Taint{Key: "own", Effect: corev1.TaintEffectNoSchedule}
	noExecute  = corev1.Taint{Key: "own", Effect: corev1.TaintEffectNoExecute}
)

// world is an API with its objects, which outlives controllers.
type world struct {
	t      *testing.T
	client *fake.Clientset
	now    time.Time
	events []string
	refuse func(a k8stesting.Action) error

	mu     sync.Mutex
	writes int
	kill   int // the write after which the controller is dead; 0 is never
}

var errKilled = errors.New("the controller is dead")

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, client: fake.NewClientset(objects...), now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	w.client.PrependReactor("*", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.kill > 0 && w.writes >= w.kill {
			return true, nil, errKilled
		}
		if a.GetVerb() == "get" || a.GetVerb() == "list" {
			return false, nil, nil
		}
		w.writes++
		if w.refuse != nil {
			if err := w.refuse(a); err != nil {
				return true, nil, err
			}
		}
		if a.GetVerb() == "create" {
			o := a.(k8stesting.CreateAction).GetObject().(metav1.Object)
			if o.GetName() == "" {
				o.SetName(fmt.Sprintf("%s%d", o.GetGenerateName(), w.writes))
			}
			o.SetUID(types.UID("uid-" + o.GetName()))
			o.SetCreationTimestamp(metav1.NewTime(w.now.Add(time.Duration(w.writes) * time.Second)))
		}
		return false, nil, nil
	})
	return w
}

// controller is one that has just started: its caches have what the API has.
func (w *world) controller() *keeper {
	w.t.Helper()
	k, err := build(w.client, informers.NewSharedInformerFactory(w.client, 0), slog.New(slog.DiscardHandler))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { k.Close(); k.nodeLoop.Close() })
	k.clock = func() time.Time { return w.now }
	k.Recorder = record.NewFakeRecorder(10000)
	w.fill(k)
	return k
}

func (w *world) fill(k *keeper) {
	w.t.Helper()
	var sets, pods, nodes, revs []any
	for _, o := range w.sets() {
		sets = append(sets, o)
	}
	for _, o := range w.pods() {
		pods = append(pods, o)
	}
	for _, o := range w.nodes() {
		nodes = append(nodes, o)
	}
	for _, o := range w.revisions() {
		revs = append(revs, o)
	}
	err := errors.Join(k.sets.Replace(sets, ""), k.pods.Replace(pods, ""), k.nodeCache.Replace(nodes, ""), k.revisions.Replace(revs, ""))
	if err != nil {
		w.t.Fatal(err)
	}
}

func tracked[T any](w *world, resource, kind string, items func(runtime.Object) []T) []*T {
	w.t.Helper()
	gv := corev1.SchemeGroupVersion
	if kind == "DaemonSet" || kind == "ControllerRevision" {
		gv = appsv1.SchemeGroupVersion
	}
	got, err := w.client.Tracker().List(gv.WithResource(resource), gv.WithKind(kind), metav1.NamespaceAll)
	if err != nil {
		w.t.Fatal(err)
	}
	var all []*T
	for _, o := range items(got) {
		all = append(all, &o)
	}
	return all
}

func (w *world) sets() []*appsv1.DaemonSet {
	return tracked(w, "daemonsets", "DaemonSet", func(o runtime.Object) []appsv1.DaemonSet { return o.(*appsv1.DaemonSetList).Items })
}

func (w *world) pods() []*corev1.Pod {
	all := tracked(w, "pods", "Pod", func(o runtime.Object) []corev1.Pod { return o.(*corev1.PodList).Items })
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func (w *world) nodes() []*corev1.Node {
	return tracked(w, "nodes", "Node", func(o runtime.Object) []corev1.Node { return o.(*corev1.NodeList).Items })
}

func (w *world) revisions() []*appsv1.ControllerRevision {
	return tracked(w, "controllerrevisions", "ControllerRevision", func(o runtime.Object) []appsv1.ControllerRevision {
		return o.(*appsv1.ControllerRevisionList).Items
	})
}

// sync is one sync by a controller that has just started.
func (w *world) sync() error { return w.syncBy(w.controller()) }

func (w *world) syncBy(k *keeper) error {
	err := k.sync(w.t.Context(), "default/d")
	recorder := k.Recorder.(*record.FakeRecorder)
	for len(recorder.Events) > 0 {
		w.events = append(w.events, <-recorder.Events)
	}
	return err
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) update(resource string, o runtime.Object) {
	w.t.Helper()
	gv := corev1.SchemeGroupVersion
	if resource == "daemonsets" {
		gv = appsv1.SchemeGroupVersion
	}
	w.must(w.client.Tracker().Update(gv.WithResource(resource), o, o.(metav1.Object).GetNamespace()))
}

func (w *world) template(image string) {
	ds := w.sets()[0]
	ds.Spec.Template.Spec.Containers[0].Image = image
	ds.Generation++
	w.update("daemonsets", ds)
}

// kubelets let all pods be bound, run and get ready.
func (w *world) kubelets() {
	for _, p := range w.pods() {
		if p.Status.Phase == "" {
			ready(p)
			w.update("pods", p)
		}
	}
}

func ready(p *corev1.Pod) {
	p.Spec.NodeName, p.Status.Phase = target(p), corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC))}}
}

// placed is the image on each node, such as "a:one b:one".
func (w *world) placed() string {
	var all []string
	for _, p := range w.pods() {
		all = append(all, target(p)+":"+p.Spec.Containers[0].Image)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// settle syncs and lets kubelets work until nothing changes.
func (w *world) settle() {
	w.t.Helper()
	for range 200 {
		w.mu.Lock()
		before := w.writes
		w.mu.Unlock()
		err := w.sync()
		w.kubelets()
		w.mu.Lock()
		dead := w.kill > 0 && w.writes >= w.kill
		if dead {
			w.kill = 0 // another controller takes over
		}
		rest := w.writes == before
		w.mu.Unlock()
		var status apierrors.APIStatus
		if err != nil && !dead && !errors.As(err, &status) {
			w.t.Fatal(err)
		}
		if err == nil && rest && !dead {
			return
		}
	}
	w.t.Fatal("it does not come to rest")
}
