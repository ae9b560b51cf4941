package statefulset

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// ordinalOf returns the ordinal of a pod of the set; no, if by its name the pod
// is none of the set's. An ordinal is written in one way only, so that no two
// pods have the same.
func ordinalOf(set *appsv1.StatefulSet, pod *corev1.Pod) (ordinal int, yes bool) {
	text, found := strings.CutPrefix(pod.Name, set.Name+"-")
	if !found {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 33) // start and replicas have 31 bits each
	if err != nil || strconv.FormatUint(n, 10) != text {
		return 0, false
	}
	return int(n), true
}

// bounds returns the first ordinal of the set and the one behind its last.
func bounds(set *appsv1.StatefulSet) (start, end int) {
	if set.Spec.Ordinals != nil {
		start = int(set.Spec.Ordinals.Start)
	}
	return start, start + int(ptr.Deref(set.Spec.Replicas, 1))
}

func inRange(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	start, end := bounds(set)
	n, yes := ordinalOf(set, pod)
	return yes && n >= start && n < end
}

func podName(set *appsv1.StatefulSet, ordinal int) string {
	return set.Name + "-" + strconv.Itoa(ordinal)
}

func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.StatefulSetRevisionLabel] }

// newPod builds the pod of an ordinal from the set's template.
func newPod(set *appsv1.StatefulSet, ordinal int, revision string) *corev1.Pod {
	t := set.Spec.Template.DeepCopy()
	prefix := set.Name + "-"
	if len(validation.NameIsDNSSubdomain(prefix, true)) > 0 {
		prefix = set.Name
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(set, ordinal), GenerateName: prefix, Namespace: set.Namespace,
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, gvk)},
		},
		Spec: t.Spec,
	}
	setIdentity(pod, ordinal)
	pod.Labels[appsv1.StatefulSetRevisionLabel] = revision
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, set.Spec.ServiceName
	setStorage(set, pod, ordinal)
	return pod
}

// setIdentity writes the labels that tell a pod from its siblings.
func setIdentity(pod *corev1.Pod, ordinal int) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(ordinal)
}

func identityMatches(pod *corev1.Pod) bool {
	return pod.Labels[appsv1.StatefulSetPodNameLabel] == pod.Name
}
