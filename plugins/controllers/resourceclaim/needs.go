package resourceclaim

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// done says whether it is certain that no container of a pod runs or will run.
func done(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed ||
		pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}

// needsWork says whether a pod lacks a claim that is made here, or a reservation.
func (k *keeper) needsWork(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || done(pod) {
		return false
	}
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		name, owned, err := resourceclaim.Name(pod, entry)
		if err != nil {
			return true
		}
		if name == nil {
			continue // it was decided that none is needed
		}
		claim, err := k.claims.ResourceClaims(pod.Namespace).Get(*name)
		switch {
		case apierrors.IsNotFound(err):
			if entry.ResourceClaimTemplateName != nil {
				return true
			}
		case err != nil:
			return true
		case owned && resourceclaim.IsForPod(pod, claim, false) != nil:
			// The pod waits for the end of this claim.
		case reservable(pod, claim):
			return true
		}
	}
	return false
}
