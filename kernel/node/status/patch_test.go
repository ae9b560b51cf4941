package status

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// TestPatchBody: a patch of each status to each other is the one that the JSON of whole pods gives,
// as the kubelet compares them.
func TestPatchBody(t *testing.T) {
	at := func(s int) metav1.Time { return metav1.NewTime(time.Unix(1_700_000_000+int64(s), 0)) }
	start, yes, user := at(0), true, int64(7)
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, s int) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: at(s), ObservedGeneration: 1}
	}
	scheduled := condition(corev1.PodScheduled, corev1.ConditionTrue, 0)
	scheduled.LastProbeTime = at(1)
	gate := corev1.PodCondition{Type: "example.com/<Gate>", Status: corev1.ConditionUnknown, Message: "\u2028 <&> \xff"}
	running := corev1.ContainerStatus{
		Name: "a", Image: "i", ImageID: "i@sha256:0", ContainerID: "hollow://1", Ready: true, Started: &yes,
		State:              corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(2)}},
		AllocatedResources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.5"), corev1.ResourceMemory: resource.MustParse("1024Ki")},
		Resources:          &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}, Limits: corev1.ResourceList{}},
		VolumeMounts:       []corev1.VolumeMountStatus{{Name: "v", MountPath: "/v", ReadOnly: true}},
		User:               &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: user, SupplementalGroups: []int64{1, 2}}},
	}
	ended := running
	ended.Ready, ended.Started, ended.RestartCount = false, new(bool), 3
	ended.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", StartedAt: at(2), FinishedAt: at(3)}}
	ended.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	other := corev1.ContainerStatus{Name: "b", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
	statuses := []corev1.PodStatus{
		{},
		{Conditions: []corev1.PodCondition{}, PodIPs: []corev1.PodIP{}, ContainerStatuses: []corev1.ContainerStatus{}},
		{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable, Conditions: []corev1.PodCondition{scheduled}},
		{Phase: corev1.PodPending, StartTime: &start, HostIP: "192.0.2.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}},
			Conditions: []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse, 1), scheduled}, ContainerStatuses: []corev1.ContainerStatus{other}},
		{Phase: corev1.PodRunning, StartTime: &start, ObservedGeneration: 1, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
			Conditions: []corev1.PodCondition{gate, condition(corev1.PodReady, corev1.ConditionTrue, 2), scheduled}, ContainerStatuses: []corev1.ContainerStatus{running, other}},
		{Phase: corev1.PodRunning, StartTime: &start, PodIP: "fd00::1", PodIPs: []corev1.PodIP{{IP: "fd00::1"}}, Resize: corev1.PodResizeStatusInProgress,
			Conditions: []corev1.PodCondition{scheduled, condition(corev1.PodReady, corev1.ConditionTrue, 2)}, ContainerStatuses: []corev1.ContainerStatus{other, running},
			InitContainerStatuses: []corev1.ContainerStatus{ended}, EphemeralContainerStatuses: []corev1.ContainerStatus{running}},
		{Phase: corev1.PodFailed, Reason: "Evicted", Message: "<over>", ObservedGeneration: 2, Conditions: []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse, 4)},
			ContainerStatuses: []corev1.ContainerStatus{ended}, ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "c"}}},
		{Phase: corev1.PodSucceeded, NominatedNodeName: "n", QOSClass: corev1.PodQOSGuaranteed},
	}
	for i := range statuses {
		for j := range statuses {
			old, want := statuses[i], statuses[j]
			was := [2]*corev1.PodStatus{old.DeepCopy(), want.DeepCopy()}
			got, err := patchBody("u", &old, &want)
			if err != nil {
				t.Fatalf("%d to %d: %v", i, j, err)
			}
			if !reflect.DeepEqual(&old, was[0]) || !reflect.DeepEqual(&want, was[1]) {
				t.Errorf("%d to %d: a status changed", i, j)
			}
			before, err := json.Marshal(corev1.Pod{Status: old})
			if err != nil {
				t.Fatal(err)
			}
			after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: want})
			if err != nil {
				t.Fatal(err)
			}
			whole, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
			if err != nil {
				t.Fatal(err)
			}
			// Bytes that are no text are the same character, escaped or not.
			var a, b any
			if json.Unmarshal(got, &a) != nil || json.Unmarshal(whole, &b) != nil || !reflect.DeepEqual(a, b) {
				t.Errorf("%d to %d:\n%s\nof whole pods:\n%s", i, j, got, whole)
			}
		}
	}
}

// BenchmarkPatchBody is the patch of a pod that begins to run, and the one that the JSON of whole
// pods gives.
func BenchmarkPatchBody(b *testing.B) {
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	old := corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now}}}
	want := *old.DeepCopy()
	want.Phase, want.StartTime, want.PodIP, want.PodIPs, want.HostIP = corev1.PodRunning, &now, "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}}, "192.0.2.1"
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		want.Conditions = append(want.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now, ObservedGeneration: 1})
	}
	want.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Image: "i", ImageID: "i@sha256:0", ContainerID: "hollow://1", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}}
	b.Run("statuses", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := patchBody("u", &old, &want); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("JSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			before, _ := json.Marshal(corev1.Pod{Status: old})
			after, _ := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: want})
			if _, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
