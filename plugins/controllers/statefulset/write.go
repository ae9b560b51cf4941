package statefulset

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// told records an event about a pod of the set: verb is Create, Update or Delete.
func (k *keeper) told(set *appsv1.StatefulSet, verb, pod string, err error) {
	if err == nil {
		k.Recorder.Eventf(set, corev1.EventTypeNormal, "Successful"+verb, "%s Pod %s in StatefulSet %s successful", verb, pod, set.Name)
		return
	}
	k.Recorder.Eventf(set, corev1.EventTypeWarning, "Failed"+verb, "%s Pod %s in StatefulSet %s failed error: %s", verb, pod, set.Name, err)
}

// createClaims makes the claims of an ordinal that are missing. A claim that is
// being deleted is an error: the pod must not start on data that goes away.
func (k *keeper) createClaims(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) error {
	var faults []error
	for _, c := range claimsOf(set, ordinal) {
		if there := k.claim(c.Namespace, c.Name); there != nil {
			if there.DeletionTimestamp != nil {
				faults = append(faults, queue.Quiet(fmt.Errorf("pvc %s is being deleted", c.Name)))
			}
			continue
		}
		made, err := k.client.CoreV1().PersistentVolumeClaims(c.Namespace).Create(ctx, c, metav1.CreateOptions{})
		if err == nil {
			k.written.Wrote(queue.Key(set), set.UID, claimResource, made)
			k.Recorder.Eventf(set, corev1.EventTypeNormal, "SuccessfulCreate", "Create Claim %s Pod %s in StatefulSet %s success", c.Name, pod.Name, set.Name)
			continue
		}
		faults = append(faults, fmt.Errorf("failed to create PVC %s: %w", c.Name, err))
		if !apierrors.IsAlreadyExists(err) {
			k.Recorder.Eventf(set, corev1.EventTypeWarning, "FailedCreate", "Create Claim %s for Pod %s in StatefulSet %s failed error: %s", c.Name, pod.Name, set.Name, err)
		}
	}
	return errors.Join(faults...)
}

// claimsStale says whether a claim of the ordinal belongs to an earlier pod of
// the name and goes with it. A new pod must wait for that.
func (k *keeper) claimsStale(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) bool {
	if _, whenScaled := retention(set); !whenScaled {
		return false
	}
	for _, c := range claimsOf(set, ordinal) {
		if there := k.claim(c.Namespace, c.Name); there != nil && stale(there, pod, podKind) {
			return true
		}
	}
	return false
}

// ownersMatch says whether all claims of the pod that exist have the owners of the policy.
func (k *keeper) ownersMatch(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) bool {
	for _, c := range claimsOf(set, ordinal) {
		if there := k.claim(c.Namespace, c.Name); there != nil && !ownersRight(there, set, pod) {
			return false
		}
	}
	return true
}

// updateOwners gives the claims of the pod the owners of the policy.
func (k *keeper) updateOwners(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) error {
	for _, c := range claimsOf(set, ordinal) {
		there := k.claim(c.Namespace, c.Name)
		if there == nil {
			continue
		}
		if foreign(there, set, pod) {
			k.Recorder.Eventf(set, corev1.EventTypeWarning, "ConflictingController",
				"PersistentVolumeClaim %s has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim", c.Name)
		}
		if ownersRight(there, set, pod) {
			continue
		}
		there = there.DeepCopy()
		setOwners(there, set, pod)
		updated, err := k.client.CoreV1().PersistentVolumeClaims(there.Namespace).Update(ctx, there, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", c.Name, err)
		}
		k.written.Wrote(queue.Key(set), set.UID, claimResource, updated)
	}
	return nil
}

// createPod makes the claims of the pod, then the pod.
func (k *keeper) createPod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) error {
	if err := k.createClaims(ctx, set, pod, ordinal); err != nil {
		k.told(set, "Create", pod.Name, err)
		return err
	}
	made, err := k.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return err
	}
	if err == nil {
		k.written.Wrote(queue.Key(set), set.UID, podResource, made)
	}
	if fault := k.updateOwners(ctx, set, pod, ordinal); fault != nil {
		k.told(set, "Update", pod.Name, fault)
		return errors.Join(err, fault)
	}
	k.told(set, "Create", pod.Name, err)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return queue.Quiet(err) // the event has it
	}
	return err
}

// updatePod gives a pod its identity, its claims and their owners.
func (k *keeper) updatePod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) error {
	tried, name, uid := false, pod.Name, pod.UID
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		pod = pod.DeepCopy()
		dirty := false
		if !identityMatches(pod) {
			setIdentity(pod, ordinal)
			dirty = true
		}
		if !storageMatches(set, pod, ordinal) {
			setStorage(set, pod, ordinal)
			dirty = true
			if err := k.createClaims(ctx, set, pod, ordinal); err != nil {
				k.told(set, "Update", name, err)
				return err
			}
		}
		if !k.ownersMatch(set, pod, ordinal) {
			if err := k.updateOwners(ctx, set, pod, ordinal); err != nil {
				k.told(set, "Update", name, err)
				return err
			}
			dirty = true
		}
		if !dirty {
			return nil
		}
		tried = true
		updated, err := k.client.CoreV1().Pods(pod.Namespace).Update(ctx, pod, metav1.UpdateOptions{})
		if err == nil {
			k.written.Wrote(queue.Key(set), set.UID, podResource, updated)
			return nil
		}
		if apierrors.IsConflict(err) {
			fresh, fault := k.client.CoreV1().Pods(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
			if fault != nil {
				return fault
			}
			if fresh.UID != uid {
				return apierrors.NewNotFound(corev1.Resource("pods"), name)
			}
			pod = fresh
		}
		return err
	})
	if tried {
		k.told(set, "Update", name, err)
	}
	return err
}

// deletePod deletes the pod as the object that was seen. One that is gone is deleted.
func (k *keeper) deletePod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if apierrors.IsConflict(err) {
		return err // another pod of the name: the cache will show it
	}
	if apierrors.IsNotFound(err) {
		err = nil
	}
	k.told(set, "Delete", pod.Name, err)
	return err
}

// writeStatus writes a status that differs. It completes a rolling update whose
// pods are all ready.
func (k *keeper) writeStatus(ctx context.Context, set *appsv1.StatefulSet, s *appsv1.StatefulSetStatus) error {
	complete(set, s)
	if !differs(set, s) {
		return nil
	}
	uid := set.UID
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		set = set.DeepCopy()
		set.Status = *s
		updated, err := k.client.AppsV1().StatefulSets(set.Namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{})
		if err == nil {
			k.written.Wrote(queue.Key(set), set.UID, setResource, updated)
			return nil
		}
		if apierrors.IsConflict(err) {
			fresh, fault := k.client.AppsV1().StatefulSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
			if fault != nil {
				return fault
			}
			if fresh.UID != uid {
				return apierrors.NewNotFound(appsv1.Resource("statefulsets"), set.Name)
			}
			set = fresh
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("status of stateful set %s/%s: %w", set.Namespace, set.Name, err)
	}
	return nil
}
