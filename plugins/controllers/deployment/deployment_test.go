package deployment

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
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
	failed string // image whose pods cannot be made, for a quota
	names  int
}

func newBench(t *testing.T, d *appsv1.Deployment) *bench {
	client := fake.NewClientset(d)
	shared := informers.NewSharedInformerFactory(client, 0)
	c, err := build(client, shared, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &bench{deployer: c, t: t, client: client, clock: clocktesting.NewFakeClock(time.Unix(1_000_000, 0)), events: record.NewFakeRecorder(1000)}
	c.clock, c.Recorder = b.clock, b.events
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
		if rs.Spec.Template.Spec.Containers[0].Image == b.failed {
			rs.Status.Replicas, rs.Status.ReadyReplicas, rs.Status.AvailableReplicas = 0, 0, 0
			rs.Status.Conditions = []appsv1.ReplicaSetCondition{{
				Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
				Message: `pods "web-" is forbidden: exceeded quota: object-counts, requested: pods=1, used: pods=3, limited: pods=2`,
			}}
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

// told returns the events since the last call, without the names of replica
// sets: by image instead.
func (b *bench) told() (events []string) {
	names := []string{}
	for image, rs := range b.replicaSets() {
		names = append(names, rs.Name, image)
	}
	for {
		select {
		case e := <-b.events.Events:
			events = append(events, strings.NewReplacer(names...).Replace(e))
		default:
			return events
		}
	}
}

// DEP-1, DEP-6, DEP-7: a rolling update stays within surge and availability at every step; the
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

// DEP-10, DEP-13: a template that never gets ready costs maxUnavailable and no more, and
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

// DEP-3: no new pod before the last old one is gone.
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

// TestNewSetIsSaid: that a replica set was made is in the condition, also where somebody
// wrote the deployment meanwhile: the success of the set before is not taken for its own.
func TestNewSetIsSaid(t *testing.T) {
	b := newBench(t, dep(2, "a"))
	b.settle(nil)
	b.update(image("b"))
	refused := false
	b.client.PrependReactor("update", "deployments", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if refused || a.GetSubresource() != "status" {
			return false, nil, nil
		}
		refused = true
		return true, nil, apierrors.NewConflict(appsv1.Resource("deployments"), "web", errors.New("written by another"))
	})
	if err := b.step(); !apierrors.IsConflict(err) {
		t.Errorf("the conflict is %v, want it to be tried again", err)
	}
	if got := progressing(b.get()); !refused || got != "NewReplicaSetCreated" || b.replicaSets()["b"] == nil {
		t.Errorf("the condition's reason is %q, after a conflict: %v", got, refused)
	}
	b.settle(nil)
	c := condition(&b.get().Status, appsv1.DeploymentProgressing)
	if name := b.replicaSets()["b"].Name; c.Reason != "NewReplicaSetAvailable" || !strings.Contains(c.Message, name) {
		t.Errorf("at the end: %s: %s, want %s", c.Reason, c.Message, name)
	}
}

// DEP-9: a paused deployment scales and does not roll.
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

// DEP-6: old replica sets beyond the limit go, the lowest revision first.
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

// DEP-3: maxSurge is rounded up, maxUnavailable down, and both are never 0.
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

// DEP-4, T-6, [17.16]: with 25% of each, three pods are replaced one by one,
// and each step is told.
func TestTrace(t *testing.T) {
	d, quarter := dep(3, "a"), intstr.FromString("25%")
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter}
	b := newBench(t, d)
	b.settle(nil)
	b.update(image("b"))
	b.settle(nil)
	want := []string{"up a 0 3", "up b 0 1", "down a 3 2", "up b 1 2", "down a 2 1", "up b 2 3", "down a 1 0"}
	got := b.told()
	for i, w := range want {
		f := strings.Fields(w)
		want[i] = fmt.Sprintf("Normal ScalingReplicaSet Scaled %s replica set %s from %s to %s", f[0], f[1], f[2], f[3])
	}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// DEP-8, T-7: in the middle of a rollout a new size is spread in proportion.
func TestProportionalScaling(t *testing.T) {
	d, surge, unavailable := dep(10, "a"), intstr.FromInt32(3), intstr.FromInt32(2)
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}
	b := newBench(t, d)
	b.settle(nil)
	b.broken = "b"
	b.update(image("b"))
	b.settle(nil)
	sizes := func() [2]int32 {
		sets := b.replicaSets()
		return [2]int32{*sets["a"].Spec.Replicas, *sets["b"].Spec.Replicas}
	}
	if got := sizes(); got != [2]int32{8, 5} {
		t.Fatalf("before: %v", got)
	}
	b.update(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](15) })
	if err := b.step(); err != nil {
		t.Fatal(err)
	}
	if got := sizes(); got != [2]int32{11, 7} {
		t.Errorf("after: %v", got)
	}
}

// DEP-5: a template that is replaced while it is rolled out is old at once:
// its replicas are taken before any new one is there.
func TestRollover(t *testing.T) {
	b := newBench(t, dep(5, "a"))
	b.broken = "a"
	b.settle(nil)
	b.update(image("b"))
	if err := b.step(); err != nil {
		t.Fatal(err)
	}
	if n := *b.replicaSets()["a"].Spec.Replicas; n >= 5 {
		t.Errorf("%d of the first are left", n)
	}
	b.update(image("c"))
	b.settle(nil)
	if sets := b.replicaSets(); *sets["a"].Spec.Replicas != 0 || *sets["b"].Spec.Replicas != 0 || *sets["c"].Spec.Replicas != 5 {
		t.Errorf("in the end: %d, %d, %d", *sets["a"].Spec.Replicas, *sets["b"].Spec.Replicas, *sets["c"].Spec.Replicas)
	}
}

// DEP-10, T-16, [17.18]: a quota that refuses pods is told by conditions, and
// the deployment is well again once it lets them in.
func TestQuota(t *testing.T) {
	b := newBench(t, dep(3, "a"))
	b.settle(nil)
	b.failed = "b"
	b.update(image("b"))
	b.settle(nil)
	state := func() (out []string) {
		d := b.get()
		for _, kind := range []appsv1.DeploymentConditionType{appsv1.DeploymentAvailable, appsv1.DeploymentProgressing, appsv1.DeploymentReplicaFailure} {
			if c := condition(&d.Status, kind); c != nil {
				out = append(out, fmt.Sprint(c.Type, c.Status, " ", c.Reason))
			}
		}
		return out
	}
	if got, want := state(), []string{"AvailableTrue MinimumReplicasAvailable", "ProgressingTrue ReplicaSetUpdated", "ReplicaFailureTrue FailedCreate"}; !slices.Equal(got, want) {
		t.Errorf("refused: %q, want %q", got, want)
	}
	b.clock.Step(time.Hour)
	b.settle(nil)
	if got := state(); got[1] != "ProgressingFalse ProgressDeadlineExceeded" {
		t.Errorf("after the deadline: %q", got)
	}
	b.failed = ""
	b.settle(nil)
	if got, want := state(), []string{"AvailableTrue MinimumReplicasAvailable", "ProgressingTrue NewReplicaSetAvailable"}; !slices.Equal(got, want) {
		t.Errorf("let in: %q, want %q", got, want)
	}
}

// DEP-11: minReadySeconds goes to the replica set without a new revision.
func TestMinReadySeconds(t *testing.T) {
	b := newBench(t, dep(1, "a"))
	b.settle(nil)
	b.update(func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 7 })
	b.settle(nil)
	if sets := b.replicaSets(); len(sets) != 1 || sets["a"].Spec.MinReadySeconds != 7 || sets["a"].Annotations[revisionAnnotation] != "1" {
		t.Errorf("replica sets %v", sets)
	}
}

// DEP-7: the annotation that is left of spec.rollbackTo goes back to a
// revision, with its change cause, and is taken away whatever comes of it.
func TestRollbackAnnotation(t *testing.T) {
	const cause = "kubernetes.io/change-cause"
	b := newBench(t, dep(2, "a"))
	b.update(func(d *appsv1.Deployment) { d.Annotations = map[string]string{cause: "first"} })
	b.settle(nil)
	ask := func(revision string) []string {
		t.Helper()
		b.told()
		b.update(func(d *appsv1.Deployment) { d.Annotations[appsv1.DeprecatedRollbackTo] = revision })
		if err := b.step(); err != nil {
			t.Fatal(err)
		}
		if _, left := b.get().Annotations[appsv1.DeprecatedRollbackTo]; left {
			t.Error("the wish stays")
		}
		return b.told()
	}
	if got := ask("0"); !slices.Equal(got, []string{"Warning DeploymentRollbackRevisionNotFound Unable to find last revision."}) {
		t.Errorf("no other revision: %q", got)
	}
	b.update(func(d *appsv1.Deployment) { image("b")(d); d.Annotations[cause] = "second" })
	b.settle(nil)
	if got := ask("7"); !slices.Equal(got, []string{"Warning DeploymentRollbackRevisionNotFound Unable to find the revision to rollback to."}) {
		t.Errorf("no such revision: %q", got)
	}
	if got := ask("2"); !slices.Equal(got, []string{`Warning DeploymentRollbackTemplateUnchanged The rollback revision contains the same template as current deployment "web"`}) {
		t.Errorf("the current revision: %q", got)
	}
	if got := ask("0"); !slices.Equal(got, []string{`Normal DeploymentRollback Rolled back deployment "web" to revision 1`}) {
		t.Errorf("the last revision: %q", got)
	}
	b.settle(nil)
	if d, sets := b.get(), b.replicaSets(); d.Annotations[cause] != "first" || d.Annotations[revisionAnnotation] != "3" || *sets["a"].Spec.Replicas != 2 || *sets["b"].Spec.Replicas != 0 ||
		d.Spec.Template.Labels["pod-template-hash"] != "" || sets["b"].Annotations[cause] != "second" {
		t.Errorf("after it: %v, %v", d.Annotations, sets)
	}
}
