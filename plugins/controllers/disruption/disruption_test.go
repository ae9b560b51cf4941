package disruption

import (
	"log/slog"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// The counts of a budget over five wanted pods, four of them there, three
// ready, one of which is evicted and awaited to go.
func TestStatus(t *testing.T) {
	now := time.Unix(10_000, 0)
	for _, tt := range []struct {
		name                       string
		min, most                  *intstr.IntOrString
		evictedAgo                 time.Duration
		expected, desired, current int32
		allowed                    int32
	}{
		{"minAvailable", ptr.To(intstr.FromInt32(1)), nil, time.Minute, 4, 1, 2, 1},
		{"minAvailable in percent", ptr.To(intstr.FromString("50%")), nil, time.Minute, 5, 3, 2, 0},
		{"maxUnavailable", nil, ptr.To(intstr.FromInt32(4)), time.Minute, 5, 1, 2, 1},
		{"evicted and still there", nil, ptr.To(intstr.FromInt32(4)), 3 * time.Minute, 5, 1, 3, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "rs"}, Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](5)}}
			pdb := &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default", Generation: 3},
				Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: tt.min, MaxUnavailable: tt.most, Selector: &metav1.LabelSelector{}},
				Status:     policyv1.PodDisruptionBudgetStatus{DisruptedPods: map[string]metav1.Time{"a": metav1.NewTime(now.Add(-tt.evictedAgo))}},
			}
			client := fake.NewClientset(pdb)
			shared := informers.NewSharedInformerFactory(client, 0)
			k := build(client, shared, nil, slog.New(slog.DiscardHandler))
			t.Cleanup(func() { k.Close(); k.marks.Close() })
			k.Recorder, k.clock = record.NewFakeRecorder(10), clocktesting.NewFakeClock(now)
			add := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			add(shared.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer().Add(pdb))
			add(shared.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(set))
			for _, name := range []string{"a", "b", "c", "d"} {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Name: name, Namespace: "default", UID: types.UID(name),
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
				}}
				if name != "d" {
					p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				}
				add(shared.Core().V1().Pods().Informer().GetIndexer().Add(p))
			}
			add(k.sync(t.Context(), "default/b"))
			got, err := client.PolicyV1().PodDisruptionBudgets("default").Get(t.Context(), "b", metav1.GetOptions{})
			add(err)
			s := got.Status
			if s.ExpectedPods != tt.expected || s.DesiredHealthy != tt.desired || s.CurrentHealthy != tt.current || s.DisruptionsAllowed != tt.allowed || s.ObservedGeneration != 3 {
				t.Errorf("expected %d, desired %d, current %d, allowed %d; want %+v", s.ExpectedPods, s.DesiredHealthy, s.CurrentHealthy, s.DisruptionsAllowed, tt)
			}
			if awaited := tt.evictedAgo < timeout; awaited != (len(s.DisruptedPods) == 1) {
				t.Errorf("awaited pods %v", s.DisruptedPods)
			}
		})
	}
}
