package node

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/api/podreferences"
)

// relations are what a pod entitles its node to: all that is kept of pods, of
// which there are many.
type relations struct {
	// Only namespace, name and resource version are set.
	metav1.ObjectMeta
	node, account string
	// mirror: the pod shows one that the node runs without the API. A node makes
	// such pods itself, so they give it a right to nothing but themselves.
	mirror                      bool
	secrets, configMaps, claims []string
}

// relationsOf is a cache.TransformFunc. It leaves alone what is no pod.
func relationsOf(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	r := &relations{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, ResourceVersion: pod.ResourceVersion},
		node:       pod.Spec.NodeName,
	}
	if _, r.mirror = pod.Annotations[corev1.MirrorPodAnnotationKey]; r.mirror {
		return r, nil
	}
	r.account = pod.Spec.ServiceAccountName
	r.secrets, r.configMaps = distinct(podreferences.Secrets(pod)), distinct(podreferences.ConfigMaps(pod))
	r.claims = claimNames(pod)
	return r, nil
}

func distinct(names iter.Seq[string]) []string {
	return slices.Clip(slices.Compact(slices.Sorted(names)))
}

// nodeOf is a cache.IndexFunc.
func nodeOf(obj any) ([]string, error) {
	if r, ok := obj.(*relations); ok && r.node != "" {
		return []string{r.node}, nil
	}
	return nil, nil
}

// claimNames are the pod's claims, those made for its ephemeral volumes included.
func claimNames(pod *corev1.Pod) []string {
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
