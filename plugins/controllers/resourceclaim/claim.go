package resourceclaim

import (
	"context"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// syncClaim takes a claim back from pods that need it no more.
func (k *keeper) syncClaim(ctx context.Context, key cache.ObjectName) error {
	claim, err := k.claims.ResourceClaims(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	users, err := k.users(ctx, claim)
	if err != nil {
		return err
	}
	ends := len(users) == 0 && claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, resourcev1.Finalizer)
	if len(users) < len(claim.Status.ReservedFor) || ends {
		if err := k.takeBack(ctx, claim, users); err != nil {
			return err
		}
	}
	if len(users) > 0 {
		return nil
	}
	return k.removeGenerated(ctx, claim)
}

// users are the consumers that still need a claim. What is not a pod is kept: others know.
func (k *keeper) users(ctx context.Context, claim *resourcev1.ResourceClaim) ([]resourcev1.ResourceClaimConsumerReference, error) {
	var users []resourcev1.ResourceClaimConsumerReference
	for _, consumer := range claim.Status.ReservedFor {
		uses := true
		if consumer.APIGroup == "" && consumer.Resource == "pods" {
			var err error
			if uses, err = k.uses(ctx, claim.Namespace, &consumer); err != nil {
				return nil, err
			}
		}
		if uses {
			users = append(users, consumer)
		}
	}
	return users, nil
}

// uses says whether a pod needs its claims. Only the API server can say that a pod which the cache does not have is
// not there: the scheduler may be faster than the cache.
func (k *keeper) uses(ctx context.Context, namespace string, consumer *resourcev1.ResourceClaimConsumerReference) (bool, error) {
	if _, gone := k.gone.Get(consumer.UID); gone {
		return false, nil
	}
	pod, err := k.pods.Pods(namespace).Get(consumer.Name)
	if apierrors.IsNotFound(err) {
		pod, err = k.client.CoreV1().Pods(namespace).Get(ctx, consumer.Name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get pod %s/%s, for which a claim is reserved: %w", namespace, consumer.Name, err)
	}
	return pod.UID == consumer.UID && !done(pod), nil
}

// takeBack writes the reservations that are left. With the last one the allocation goes, so that the next user may
// run on another node, and the finalizer, which keeps an allocated claim from going. Updates fail where the claim
// was changed in the meantime.
func (k *keeper) takeBack(ctx context.Context, claim *resourcev1.ResourceClaim, users []resourcev1.ResourceClaimConsumerReference) error {
	claims := k.client.ResourceV1().ResourceClaims(claim.Namespace)
	claim = claim.DeepCopy()
	unallocated := claim.Status.Allocation == nil
	ended := len(users) < len(claim.Status.ReservedFor)
	claim.Status.ReservedFor = users
	// An allocation without the finalizer is not the scheduler's.
	if len(users) == 0 && slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		claim.Status.Allocation = nil
	}
	if ended || !unallocated {
		written, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("claim %s/%s: end reservations: %w", claim.Namespace, claim.Name, err)
		}
		claim = written
	}
	at := slices.Index(claim.Finalizers, resourcev1.Finalizer)
	if at < 0 || claim.Status.Allocation != nil {
		return nil
	}
	claim = claim.DeepCopy()
	claim.Finalizers = slices.Delete(claim.Finalizers, at, at+1)
	if _, err := claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("claim %s/%s: remove its finalizer: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// removeGenerated deletes a claim that was made for a pod which has ended or was replaced. The garbage collector
// deletes those of pods that are gone: a pod that is not in the cache may be new.
func (k *keeper) removeGenerated(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	name, uid := owningPod(claim)
	if uid == "" || claim.DeletionTimestamp != nil {
		return nil
	}
	pod, err := k.pods.Pods(claim.Namespace).Get(name)
	if apierrors.IsNotFound(err) || err == nil && pod.UID == uid && !done(pod) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lookup pod: %w", err)
	}
	err = k.client.ResourceV1().ResourceClaims(claim.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(claim.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete unused generated claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}
