package persistentvolumebinder

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// Reasons of events, as kube-controller-manager's.
const (
	failedBinding        = "FailedBinding"
	volumeMismatch       = "VolumeMismatch"
	volumeFailedRecycle  = "VolumeFailedRecycle"
	volumeFailedDelete   = "VolumeFailedDelete"
	unknownReclaimPolicy = "VolumeUnknownReclaimPolicy"
	externalProvisioning = "ExternalProvisioning"
	provisioningFailed   = "ProvisioningFailed"
	waitForFirstConsumer = "WaitForFirstConsumer"
	waitForPodScheduled  = "WaitForPodScheduled"
	claimLost            = "ClaimLost"
	claimMisbound        = "ClaimMisbound"
)

// syncClaim brings a claim nearer to its volume.
func (k *keeper) syncClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	claim, err := k.migrateClaim(ctx, claim)
	if err != nil {
		return err
	}
	switch {
	case metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted):
		return k.syncBound(ctx, claim)
	case claim.Spec.VolumeName != "":
		return k.syncNaming(ctx, claim)
	}
	return k.syncUnbound(ctx, claim)
}

// syncUnbound finds a volume for a claim that names none, or asks for one.
func (k *keeper) syncUnbound(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	delay, err := volume.IsDelayBindingMode(claim, k.classes)
	if err != nil {
		return err
	}
	found, err := k.match(claim, delay)
	if err != nil {
		return fmt.Errorf("error finding PV for claim %q: %w", queue.Key(claim), err)
	}
	if found != nil {
		return k.bind(ctx, found, claim)
	}
	updated, err := k.assignDefaultClass(ctx, claim)
	countAssignment(updated, err)
	if err != nil {
		return fmt.Errorf("can't update PersistentVolumeClaim[%q]: %w", queue.Key(claim), err)
	}
	if updated {
		return nil // its event brings it back
	}
	switch {
	case delay && !volume.IsDelayBindingProvisioning(claim):
		if err := k.tellWaiting(claim); err != nil {
			return err
		}
	case volume.GetPersistentVolumeClaimClass(claim) != "":
		return k.provision(ctx, claim)
	default:
		k.recorder.Event(claim, corev1.EventTypeNormal, failedBinding, "no persistent volumes available for this claim and no storage class is set")
	}
	_, err = k.setClaimPhase(ctx, claim, corev1.ClaimPending, nil)
	return err
}

// tellWaiting says for whom a claim of a class with WaitForFirstConsumer waits.
func (k *keeper) tellWaiting(claim *corev1.PersistentVolumeClaim) error {
	pods, err := k.users(queue.Key(claim))
	if err != nil {
		return err
	}
	var names []string
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			names = append(names, pod.Name)
		}
	}
	if len(names) == 0 {
		k.recorder.Event(claim, corev1.EventTypeNormal, waitForFirstConsumer, "waiting for first consumer to be created before binding")
		return nil
	}
	slices.Sort(names)
	k.recorder.Event(claim, corev1.EventTypeNormal, waitForPodScheduled, "waiting for "+plural(names)+" to be scheduled")
	return nil
}

// syncNaming binds a claim to the volume that it names, if that may be.
func (k *keeper) syncNaming(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	pv, there := k.volumes.get(claim.Spec.VolumeName)
	var refusal string
	switch {
	case !there:
		// It may come yet.
	case pv.Spec.ClaimRef == nil:
		err := satisfies(pv, claim)
		if err == nil {
			return k.bind(ctx, pv, claim)
		}
		k.recorder.Event(claim, corev1.EventTypeWarning, volumeMismatch, fmt.Sprintf("Cannot bind to requested volume %q: %s", pv.Name, err))
	case volume.IsVolumeBoundToClaim(pv, claim):
		return k.bind(ctx, pv, claim)
	default:
		refusal = fmt.Sprintf("volume %q already bound to a different claim.", pv.Name)
		k.recorder.Event(claim, corev1.EventTypeWarning, failedBinding, refusal)
		if metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBoundByController) {
			return fmt.Errorf("invalid binding of claim %q to volume %q: volume already claimed by %q", queue.Key(claim), pv.Name, claimKey(pv.Spec.ClaimRef))
		}
	}
	_, err := k.setClaimPhase(ctx, claim, corev1.ClaimPending, nil)
	return err
}

// syncBound looks whether a claim that was bound still has its volume.
func (k *keeper) syncBound(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Spec.VolumeName == "" {
		return k.lose(ctx, claim, claimLost, "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	}
	pv, there := k.volumes.get(claim.Spec.VolumeName)
	switch {
	case !there:
		return k.lose(ctx, claim, claimLost, "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == claim.UID:
		return k.bind(ctx, pv, claim)
	}
	return k.lose(ctx, claim, claimMisbound, "Two claims are bound to the same volume, this one is bound incorrectly")
}

func (k *keeper) lose(ctx context.Context, claim *corev1.PersistentVolumeClaim, reason, message string) error {
	if claim.Status.Phase == corev1.ClaimLost {
		return nil
	}
	written, err := k.setClaimPhase(ctx, claim, corev1.ClaimLost, nil)
	if err == nil {
		k.recorder.Event(written, corev1.EventTypeWarning, reason, message)
	}
	return err
}
