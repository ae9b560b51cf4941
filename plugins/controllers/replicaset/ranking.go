package replicaset

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var phaseOrder = map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodUnknown: 1, corev1.PodRunning: 2}

// toDelete returns n of the pods, those that are missed least first (RCC-22,
// answered as Kubernetes does): not assigned, then by phase, not ready, low
// deletion cost, many related pods on the same node, ready or created lately
// on a logarithmic scale, restarted often. related are the active pods that
// count as doubled up.
func toDelete(pods, related []*corev1.Pod, n int, now time.Time) []*corev1.Pod {
	if n >= len(pods) {
		return pods
	}
	onNode := map[string]int{}
	for _, p := range related {
		if active(p) {
			onNode[p.Spec.NodeName]++
		}
	}
	ranked := slices.Clone(pods)
	slices.SortStableFunc(ranked, func(a, b *corev1.Pod) int {
		return order(a, b, onNode[a.Spec.NodeName], onNode[b.Spec.NodeName], now)
	})
	return ranked[:n]
}

// order is negative if a goes before b.
func order(a, b *corev1.Pod, onNodeA, onNodeB int, now time.Time) int {
	if (a.Spec.NodeName == "") != (b.Spec.NodeName == "") {
		return first(a.Spec.NodeName == "")
	}
	if c := cmp.Compare(phaseOrder[a.Status.Phase], phaseOrder[b.Status.Phase]); c != 0 {
		return c
	}
	readyA, readyB := readyCondition(a), readyCondition(b)
	if (readyA != nil) != (readyB != nil) {
		return first(readyA == nil)
	}
	if c := cmp.Compare(deletionCost(a), deletionCost(b)); c != 0 {
		return c
	}
	if c := cmp.Compare(onNodeB, onNodeA); c != 0 {
		return c
	}
	if readyA != nil && !readyA.LastTransitionTime.Equal(&readyB.LastTransitionTime) {
		return younger(readyA.LastTransitionTime, readyB.LastTransitionTime, now, a, b)
	}
	regularA, sidecarA := restarts(a)
	regularB, sidecarB := restarts(b)
	if c := cmp.Or(cmp.Compare(regularB, regularA), cmp.Compare(sidecarB, sidecarA)); c != 0 {
		return c
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return younger(a.CreationTimestamp, b.CreationTimestamp, now, a, b)
	}
	return 0
}

func first(a bool) int {
	if a {
		return -1
	}
	return 1
}

// younger puts the later time first. Ages of the same power of two count as
// equal and the UID decides, so that pods of about one age are taken at random
// rather than always the newest.
func younger(ta, tb metav1.Time, now time.Time, a, b *corev1.Pod) int {
	if ta.IsZero() || tb.IsZero() {
		return first(ta.IsZero())
	}
	if c := cmp.Compare(magnitude(now.Sub(ta.Time)), magnitude(now.Sub(tb.Time))); c != 0 {
		return c
	}
	return cmp.Compare(a.UID, b.UID)
}

func magnitude(age time.Duration) int {
	if age <= 0 {
		return -1
	}
	return int(math.Log2(float64(age)))
}

func deletionCost(p *corev1.Pod) int64 {
	cost, err := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return cost
}

// restarts returns the highest restart count of the containers, and of the
// init containers that run on beside them.
func restarts(p *corev1.Pod) (regular, sidecar int32) {
	for _, s := range p.Status.ContainerStatuses {
		regular = max(regular, s.RestartCount)
	}
	always := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			always[c.Name] = true
		}
	}
	for _, s := range p.Status.InitContainerStatuses {
		if always[s.Name] {
			sidecar = max(sidecar, s.RestartCount)
		}
	}
	return regular, sidecar
}

// active pods count as replicas (RCC-14).
func active(p *corev1.Pod) bool {
	return !finished(p) && p.DeletionTimestamp == nil
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// readyCondition returns the pod's Ready condition if it is true.
func readyCondition(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// untilAvailable returns how long a ready pod has still to stay ready to be
// available; 0 is available. ready is false for a pod that is not.
func untilAvailable(p *corev1.Pod, minReadySeconds int32, now time.Time) (left time.Duration, ready bool) {
	c := readyCondition(p)
	if c == nil {
		return 0, false
	}
	if minReadySeconds == 0 {
		return 0, true
	}
	need := time.Duration(minReadySeconds) * time.Second
	if c.LastTransitionTime.IsZero() {
		return need, true
	}
	return max(0, c.LastTransitionTime.Add(need).Sub(now)), true
}
