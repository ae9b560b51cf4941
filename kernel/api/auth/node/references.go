package node

import (
	"iter"

	corev1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/api/podreferences"
)

// mirrors says whether the pod shows one that the node runs without the API. A
// node makes such pods itself, so they give it a right to nothing.
func mirrors(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

func refersToSecret(pod *corev1.Pod, name string) bool {
	return !mirrors(pod) && contains(podreferences.Secrets(pod), name)
}

func refersToConfigMap(pod *corev1.Pod, name string) bool {
	return !mirrors(pod) && contains(podreferences.ConfigMaps(pod), name)
}

func contains(names iter.Seq[string], name string) bool {
	for n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// claimNames are the pod's claims, those made for its ephemeral volumes included.
func claimNames(pod *corev1.Pod) []string {
	if mirrors(pod) {
		return nil
	}
	var out []string
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			out = append(out, pod.Name+"-"+v.Name)
		}
	}
	return out
}
