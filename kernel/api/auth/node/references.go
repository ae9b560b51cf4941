package node

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/api/podreferences"
)

// relations are what a pod entitles its node to: all that is kept of pods, of
// which there are many.
type relations struct {
	namespace, name string
	// Of the pod that they were made from.
	uid        types.UID
	generation int64

	node, account string
	// mirror: the pod shows one that the node runs without the API. A node makes
	// such pods itself, so they give it a right to nothing but themselves.
	mirror                      bool
	secrets, configMaps, claims []string
	deviceClaims                []string // ResourceClaims
}

func relationsOf(pod *corev1.Pod) *relations {
	r := &relations{
		namespace: pod.Namespace, name: pod.Name, uid: pod.UID, generation: pod.Generation,
		node: pod.Spec.NodeName,
	}
	if _, r.mirror = pod.Annotations[corev1.MirrorPodAnnotationKey]; r.mirror {
		return r
	}
	r.account = pod.Spec.ServiceAccountName
	r.secrets, r.configMaps = distinct(podreferences.Secrets(pod)), distinct(podreferences.ConfigMaps(pod))
	r.claims, r.deviceClaims = claimNames(pod), deviceClaimNames(pod)
	return r
}

// of says whether the relations are those of a pod, which has not changed but for its
// status and metadata. An object without a generation may have. Of the status only
// the names of device claims matter.
func (r *relations) of(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return r.generation != 0 && r.generation == pod.Generation && r.uid == pod.UID && r.node == pod.Spec.NodeName && r.mirror == mirror &&
		(mirror || slices.Equal(r.deviceClaims, deviceClaimNames(pod)))
}

func distinct(names iter.Seq[string]) []string {
	return slices.Clip(slices.Compact(slices.Sorted(names)))
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

// deviceClaimNames are the pod's ResourceClaims. Those made of templates and for
// extended resources stand in its status, which the node may not write.
func deviceClaimNames(pod *corev1.Pod) []string {
	var out []string
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			out = append(out, *c.ResourceClaimName)
			continue
		}
		for _, s := range pod.Status.ResourceClaimStatuses {
			if s.Name == c.Name && s.ResourceClaimName != nil {
				out = append(out, *s.ResourceClaimName)
			}
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil && s.ResourceClaimName != "" {
		out = append(out, s.ResourceClaimName)
	}
	return out
}
