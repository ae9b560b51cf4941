package disruption

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	pdbconditions "k8s.io/component-helpers/apps/poddisruptionbudget"
)

func (k *keeper) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	pdb, err := k.pdbs.PodDisruptionBudgets(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = k.trySync(ctx, key, pdb)
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return err
	}
	return fmt.Errorf("the pods are not evicted, since the status cannot be told: %w", k.failSafe(ctx, pdb, err))
}

func (k *keeper) trySync(ctx context.Context, key string, pdb *policyv1.PodDisruptionBudget) error {
	selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	var pods []*corev1.Pod
	if err == nil {
		pods, err = k.pods.Pods(pdb.Namespace).List(selector)
	}
	if err != nil {
		k.Recorder.Eventf(pdb, corev1.EventTypeWarning, "NoPods", "Failed to get pods: %v", err)
		return err
	}
	if len(pods) == 0 {
		k.Recorder.Event(pdb, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	expected, desired, unmanaged, err := k.counts(ctx, pdb, pods)
	if err != nil {
		k.Recorder.Eventf(pdb, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: %v", err)
		return err
	}
	if len(unmanaged) > 0 {
		k.Recorder.Eventf(pdb, corev1.EventTypeWarning, "UnmanagedPods", "Pods selected by this PodDisruptionBudget (selector: %v) were found "+
			"to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
			"To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.", pdb.Spec.Selector)
	}
	now := k.clock.Now()
	disrupted, recheck := k.disrupted(pdb, pods, now)
	if err := k.write(ctx, pdb, healthy(pods, disrupted, now), desired, expected, disrupted); err != nil {
		return err
	}
	if recheck > 0 {
		k.AddAfter(key, recheck)
	}
	return nil
}

// counts returns how many pods there should be and how many must be healthy.
func (k *keeper) counts(ctx context.Context, pdb *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (expected, desired int32, unmanaged []string, err error) {
	least, most := pdb.Spec.MinAvailable, pdb.Spec.MaxUnavailable
	switch {
	case most != nil:
		if expected, unmanaged, err = k.finder.expected(ctx, pods); err != nil {
			return 0, 0, nil, err
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(most, int(expected), true)
		if err != nil {
			return 0, 0, nil, err
		}
		return expected, max(0, expected-int32(n)), unmanaged, nil
	case least != nil && least.Type == intstr.Int:
		return int32(len(pods)), least.IntVal, nil, nil
	case least != nil:
		if expected, unmanaged, err = k.finder.expected(ctx, pods); err != nil {
			return 0, 0, nil, err
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(least, int(expected), true)
		if err != nil {
			return 0, 0, nil, err
		}
		return expected, int32(n), unmanaged, nil
	}
	return 0, 0, nil, nil
}

// disrupted returns the evicted pods that are still awaited to go, and when
// the first of them will have taken too long.
func (k *keeper) disrupted(pdb *policyv1.PodDisruptionBudget, pods []*corev1.Pod, now time.Time) (map[string]metav1.Time, time.Duration) {
	awaited, recheck := map[string]metav1.Time{}, time.Duration(0)
	for _, pod := range pods {
		at, there := pdb.Status.DisruptedPods[pod.Name]
		if !there || pod.DeletionTimestamp != nil {
			continue
		}
		left := at.Add(timeout).Sub(now)
		if left < 0 {
			k.Recorder.Eventf(pod, corev1.EventTypeWarning, "NotDeleted", "Pod was expected by PDB %s/%s to be deleted but it wasn't", pdb.Namespace, pdb.Name)
			continue
		}
		// At the very instant it still counts; a moment later it does not.
		if left += time.Second; recheck == 0 || left < recheck {
			recheck = left
		}
		awaited[pod.Name] = at
	}
	return awaited, recheck
}

func healthy(pods []*corev1.Pod, disrupted map[string]metav1.Time, now time.Time) (n int32) {
	for _, pod := range pods {
		if at, evicted := disrupted[pod.Name]; pod.DeletionTimestamp != nil || evicted && at.Add(timeout).After(now) {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				n++
			}
		}
	}
	return n
}

func (k *keeper) write(ctx context.Context, pdb *policyv1.PodDisruptionBudget, current, desired, expected int32, disrupted map[string]metav1.Time) error {
	allowed := max(0, current-desired)
	if expected <= 0 {
		allowed = 0
	}
	next := pdb.DeepCopy()
	next.Status = policyv1.PodDisruptionBudgetStatus{
		CurrentHealthy: current, DesiredHealthy: desired, ExpectedPods: expected, DisruptionsAllowed: allowed,
		DisruptedPods: disrupted, ObservedGeneration: pdb.Generation, Conditions: next.Status.Conditions,
	}
	if equality.Semantic.DeepEqual(pdb.Status, next.Status) && pdbconditions.ConditionsAreUpToDate(pdb) {
		return nil
	}
	pdbconditions.UpdateDisruptionAllowedCondition(next)
	_, err := k.client.PolicyV1().PodDisruptionBudgets(pdb.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{})
	return err
}

// failSafe allows no eviction while the counts cannot be told.
func (k *keeper) failSafe(ctx context.Context, pdb *policyv1.PodDisruptionBudget, cause error) error {
	next := pdb.DeepCopy()
	next.Status.DisruptionsAllowed = 0
	meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason,
		Message: cause.Error(), ObservedGeneration: next.Status.ObservedGeneration,
	})
	if !equality.Semantic.DeepEqual(pdb.Status, next.Status) {
		if _, err := k.client.PolicyV1().PodDisruptionBudgets(pdb.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return cause // a cache may only be late: tried again
}
