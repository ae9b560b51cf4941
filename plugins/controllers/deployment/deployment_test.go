package deployment

import (
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

var webLabels = map[string]string{"app": "web"}

func dep(replicas int32, image string) *appsv1.Deployment {
	surge, unavailable := intstr.FromInt32(1), intstr.FromInt32(1)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "dep", Generation: 1},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: webLabels},
			ProgressDeadlineSeconds: ptr.To[int32](60), RevisionHistoryLimit: ptr.To[int32](10),
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: webLabels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
			},
		},
	}
}

// bench is a deployer and the cluster around it: step lets one sync happen on
// fresh caches, and replica sets do as they are told.
type bench struct {
	*deployer
	t      *testing.T
	client *fake.Clientset
	clock  *clocktesting.FakeClock
	events *record.FakeRecorder
	broken string // image whose pods never get available
	names  int
}

func newBench(t *testing.T, d *appsv1.Deployment) *bench {
	client := fake.NewClientset(d)
	shared := informers.NewSharedInformerFactory(client, 0)
	c, err := build(client, shared, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.loop.Close)
	b := &bench{deployer: c, t: t, client: client, clock: clocktesting.NewFakeClock(time.Unix(1_000_000, 0)), events: record.NewFakeRecorder(1000)}
	c.clock, c.recorder = b.clock, b.events
	return b
}

func (b *bench) get() *appsv1.Deployment {
	d, err := b.client.AppsV1().Deployments("default").Get(b.t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

func (b *bench) update(change func(*appsv1.Deployment)) {
	d := b.get()
	change(d)
	d.Generation++
	if _, err := b.client.AppsV1().Deployments("default").Update(b.t.Context(), d, metav1.UpdateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) replicaSets() map[string]*appsv1.ReplicaSet {
	list, err := b.client.AppsV1().ReplicaSets("default").List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	byImage := map[string]*appsv1.ReplicaSet{}
	for i := range list.Items {
		byImage[list.Items[i].Spec.Template.Spec.Containers[0].Image] = &list.Items[i]
	}
	return byImage
}

func (b *bench) step() error {
	b.t.Helper()
	var sets []any
	for _, rs := range b.replicaSets() {
		if rs.UID == "" {
			b.names++
			rs.UID = types.UID(strconv.Itoa(b.names))
			rs.CreationTimestamp = metav1.NewTime(b.clock.Now().Add(time.Duration(b.names) * time.Second))
			rs.Generation = 1
		}
		rs.Status = appsv1.ReplicaSetStatus{Replicas: *rs.Spec.Replicas, ObservedGeneration: rs.Generation, TerminatingReplicas: new(int32)}
		if rs.Spec.Template.Spec.Containers[0].Image != b.broken {
			rs.Status.ReadyReplicas, rs.Status.AvailableReplicas = *rs.Spec.Replicas, *rs.Spec.Replicas
		}
		if _, err := b.client.AppsV1().ReplicaSets("default").Update(b.t.Context(), rs, metav1.UpdateOptions{}); err != nil {
			b.t.Fatal(err)
		}
		sets = append(sets, rs)
	}
	if err := b.sets.Replace(sets, ""); err != nil {
		b.t.Fatal(err)
	}
	if err := b.deployments.Replace([]any{b.get()}, ""); err != nil {
		b.t.Fatal(err)
	}
	return b.sync(b.t.Context(), "default/web")
}

// settle steps until nothing changes; each is called after each step.
func (b *bench) settle(each func()) {
	b.t.Helper()
	for last, n := "", 0; n < 50; n++ {
		if err := b.step(); err != nil {
			b.t.Fatal(err)
		}
		if each != nil {
			each()
		}
		now := ptr.To(b.get().Status).String()
		for image, rs := range b.replicaSets() {
			now += fmt.Sprint(image, *rs.Spec.Replicas, rs.Annotations[revisionAnnotation])
		}
		if now == last && n > 2 {
			return
		}
		last = now
	}
	b.t.Fatal("does not settle")
}

func progressing(d *appsv1.Deployment) string {
	if c := condition(&d.Status, appsv1.DeploymentProgressing); c != nil {
		return c.Reason
	}
	return ""
}

func image(name string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = name }
}

// A rolling update stays within surge and availability at every step; the
// change cause stays with its revision; a rollback makes the old one newest.
func TestRollAndUndo(t *testing.T) {
	b := newBench(t, dep(5, "a"))
	b.update(func(d *appsv1.Deployment) { d.Annotations = map[string]string{"kubernetes.io/change-cause": "first"} })
	b.settle(nil)
	if rs := b.replicaSets()["a"]; *rs.Spec.Replicas != 5 || rs.Annotations[revisionAnnotation] != "1" ||
		rs.Annotations[desiredAnnotation] != "5" || rs.Annotations[maxAnnotation] != "6" || rs.Labels["pod-template-hash"] == "" {
		t.Fatalf("first replica set %+v", rs)
	}
	if d := b.get(); progressing(d) != "NewReplicaSetAvailable" || d.Status.AvailableReplicas != 5 || d.Annotations[revisionAnnotation] != "1" {
		t.Fatalf("deployment %+v %v", d.Status, d.Annotations)
	}
	roll := func(to, cause string) {
		b.update(func(d *appsv1.Deployment) {
			image(to)(d)
			d.Annotations["kubernetes.io/change-cause"] = cause
		})
		b.settle(func() {
			total := int32(0)
			for _, rs := range b.replicaSets() {
				total += *rs.Spec.Replicas
			}
			if total > 6 || total < 4 {
				t.Errorf("%d replicas in the middle, want 4 to 6", total)
			}
		})
	}
	roll("b", "second")
	sets := b.replicaSets()
	if *sets["a"].Spec.Replicas != 0 || *sets["b"].Spec.Replicas != 5 || sets["a"].Annotations["kubernetes.io/change-cause"] != "first" || sets["b"].Annotations["kubernetes.io/change-cause"] != "second" {
		t.Fatalf("after the roll: %+v", sets)
	}
	roll("a", "first")
	sets = b.replicaSets()
	if len(sets) != 2 || *sets["a"].Spec.Replicas != 5 || sets["a"].Annotations[revisionAnnotation] != "3" || sets["a"].Annotations[historyAnnotation] != "1" {
		t.Errorf("after the rollback: %+v", sets["a"].Annotations)
	}
	if got := b.get().Annotations[revisionAnnotation]; got != "3" {
		t.Errorf("revision %s, want 3", got)
	}
}

// A template that never gets ready costs maxUnavailable and no more, and
// times out; the deployment is scaled in proportion meanwhile.
func TestStuckRollout(t *testing.T) {
	b := newBench(t, dep(10, "a"))
	b.settle(nil)
	b.broken = "b"
	b.update(image("b"))
	b.settle(nil)
	if sets := b.replicaSets(); *sets["a"].Spec.Replicas != 9 || *sets["b"].Spec.Replicas != 2 {
		t.Fatalf("stuck at %d and %d, want 9 and 2", *sets["a"].Spec.Replicas, *sets["b"].Spec.Replicas)
	}
	b.update(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](20) })
	if err := b.step(); err != nil {
		t.Fatal(err)
	}
	// 21 may run: 9·21/11 and 2·21/11, rounded.
	if sets := b.replicaSets(); *sets["a"].Spec.Replicas != 17 || *sets["b"].Spec.Replicas != 4 {
		t.Errorf("scaled to %d and %d, want 17 and 4", *sets["a"].Spec.Replicas, *sets["b"].Spec.Replicas)
	}
	b.settle(nil)
	b.clock.Step(time.Hour)
	b.settle(nil)
	d := b.get()
	if c := condition(&d.Status, appsv1.DeploymentProgressing); c.Reason != "ProgressDeadlineExceeded" || c.Status != corev1.ConditionFalse {
		t.Errorf("condition %+v", c)
	}
}

// Recreate: no new pod before the last old one is gone.
func TestRecreate(t *testing.T) {
	d := dep(2, "a")
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	b := newBench(t, d)
	b.settle(nil)
	old := b.replicaSets()["a"]
	leaving := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "old", Namespace: "default", DeletionTimestamp: ptr.To(metav1.Now()),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(old, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
	}}
	if err := b.pods.Add(leaving); err != nil {
		t.Fatal(err)
	}
	b.update(image("b"))
	b.settle(nil)
	if sets := b.replicaSets(); *sets["a"].Spec.Replicas != 0 || sets["b"] != nil {
		t.Fatalf("with an old pod left: %v", sets)
	}
	if err := b.pods.Delete(leaving); err != nil {
		t.Fatal(err)
	}
	b.settle(nil)
	if sets := b.replicaSets(); sets["b"] == nil || *sets["b"].Spec.Replicas != 2 {
		t.Errorf("after the last old pod: %v", sets)
	}
}

// A paused deployment scales and does not roll.
func TestPause(t *testing.T) {
	b := newBench(t, dep(2, "a"))
	b.settle(nil)
	b.update(func(d *appsv1.Deployment) { image("b")(d); d.Spec.Paused, d.Spec.Replicas = true, ptr.To[int32](3) })
	b.settle(nil)
	if sets := b.replicaSets(); len(sets) != 1 || *sets["a"].Spec.Replicas != 3 || progressing(b.get()) != "DeploymentPaused" {
		t.Errorf("paused: %v, %s", sets, progressing(b.get()))
	}
	b.update(func(d *appsv1.Deployment) { d.Spec.Paused = false })
	b.settle(nil)
	if sets := b.replicaSets(); *sets["b"].Spec.Replicas != 3 || progressing(b.get()) != "NewReplicaSetAvailable" {
		t.Errorf("resumed: %v, %s", sets, progressing(b.get()))
	}
}

// Old replica sets beyond the limit go, the lowest revision first.
func TestHistoryLimit(t *testing.T) {
	d := dep(1, "a")
	d.Spec.RevisionHistoryLimit = ptr.To[int32](1)
	b := newBench(t, d)
	b.settle(nil)
	for _, i := range []string{"b", "c"} {
		b.update(image(i))
		b.settle(nil)
	}
	if sets := b.replicaSets(); len(sets) != 2 || sets["a"] != nil {
		t.Errorf("left: %v", sets)
	}
}

// Another's replica set has the name: the collision count makes another.
func TestHashCollision(t *testing.T) {
	d := dep(1, "a")
	b := newBench(t, d)
	other := newSet(d)
	other.OwnerReferences, other.Labels = nil, map[string]string{"app": "other"}
	other.Spec.Template.Spec.Containers[0].Image = "other"
	if _, err := b.client.AppsV1().ReplicaSets("default").Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := b.step(); err == nil {
		t.Fatal("no error, so no other try")
	}
	if c := b.get().Status.CollisionCount; c == nil || *c != 1 {
		t.Fatalf("collision count %v", c)
	}
	b.settle(nil)
	if rs := b.replicaSets()["a"]; rs == nil || rs.Name == other.Name {
		t.Errorf("replica set %v", rs)
	}
}

func TestFenceposts(t *testing.T) {
	percent := func(s string) *intstr.IntOrString { v := intstr.FromString(s); return &v }
	for _, tt := range []struct {
		replicas           int32
		surge, unavailable string
		wantS, wantU       int32
	}{{10, "25%", "25%", 3, 2}, {1, "0%", "25%", 0, 1}, {4, "100%", "0%", 4, 0}} {
		d := dep(tt.replicas, "a")
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: percent(tt.surge), MaxUnavailable: percent(tt.unavailable)}
		if s, u := fenceposts(d); s != tt.wantS || u != tt.wantU {
			t.Errorf("%+v: %d, %d", tt, s, u)
		}
	}
}
