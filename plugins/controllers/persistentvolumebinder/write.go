package persistentvolumebinder

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// preResizeCapacity is what a volume held before its file system has grown.
const preResizeCapacity = "volume.alpha.kubernetes.io/pre-resize-capacity"

// bind does of the four writes those that are missing.
func (k *keeper) bind(ctx context.Context, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	pv, err := k.bindVolume(ctx, pv, claim)
	if err != nil {
		return err
	}
	if pv, err = k.setVolumePhase(ctx, pv, corev1.VolumeBound, ""); err != nil {
		return err
	}
	if claim, err = k.bindClaim(ctx, claim, pv); err != nil {
		return err
	}
	_, err = k.setClaimPhase(ctx, claim, corev1.ClaimBound, pv)
	return err
}

func (k *keeper) bindVolume(ctx context.Context, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	changed, dirty, err := volume.GetBindVolumeToClaim(pv, claim)
	if err != nil || !dirty {
		return pv, err
	}
	return k.updateVolume(ctx, changed)
}

func (k *keeper) updateVolume(ctx context.Context, changed *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	written, err := k.client.CoreV1().PersistentVolumes().Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("write volume %s: %w", changed.Name, err)
	}
	k.volumes.put(written)
	return written, nil
}

// bindClaim names the volume in the claim. A name that the user wrote is not marked as the
// controller's.
func (k *keeper) bindClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	changed, dirty := claim.DeepCopy(), false
	if claim.Spec.VolumeName != pv.Name {
		changed.Spec.VolumeName, dirty = pv.Name, true
		if !metav1.HasAnnotation(changed.ObjectMeta, volume.AnnBoundByController) {
			metav1.SetMetaDataAnnotation(&changed.ObjectMeta, volume.AnnBoundByController, "yes")
		}
	}
	if !metav1.HasAnnotation(changed.ObjectMeta, volume.AnnBindCompleted) {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, volume.AnnBindCompleted, "yes")
		dirty = true
	}
	if !dirty {
		return claim, nil
	}
	written, err := k.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("write claim %s: %w", queue.Key(claim), err)
	}
	k.claims.put(written)
	return written, nil
}

// unbind takes a volume back from a claim that has another. What the user wrote of the
// binding stays.
func (k *keeper) unbind(ctx context.Context, pv *corev1.PersistentVolume) error {
	changed := pv.DeepCopy()
	if metav1.HasAnnotation(pv.ObjectMeta, volume.AnnBoundByController) {
		changed.Spec.ClaimRef = nil
		delete(changed.Annotations, volume.AnnBoundByController)
	} else {
		changed.Spec.ClaimRef.UID = ""
	}
	written, err := k.updateVolume(ctx, changed)
	if err != nil {
		return err
	}
	_, err = k.setVolumePhase(ctx, written, corev1.VolumeAvailable, "")
	return err
}

func (k *keeper) setVolumePhase(ctx context.Context, pv *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string) (*corev1.PersistentVolume, error) {
	if pv.Status.Phase == phase {
		return pv, nil
	}
	changed := pv.DeepCopy()
	changed.Status.Phase, changed.Status.Message = phase, message
	written, err := k.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("write phase %s of volume %s: %w", phase, pv.Name, err)
	}
	k.volumes.put(written)
	return written, nil
}

// setClaimPhase writes the status of a claim: that of a volume, or of none.
func (k *keeper) setClaimPhase(ctx context.Context, claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase, pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	changed := claim.DeepCopy()
	status := &changed.Status
	status.Phase = phase
	if pv == nil {
		status.AccessModes, status.Capacity, status.CurrentVolumeAttributesClassName = nil, nil, nil
	} else {
		status.AccessModes = pv.Spec.AccessModes
		if claim.Status.Phase != phase {
			// Later the capacity is the expander's.
			if _, there := pv.Spec.Capacity[corev1.ResourceStorage]; !there {
				return nil, fmt.Errorf("PersistentVolume %q is without a storage capacity", pv.Name)
			}
			status.Capacity = pv.Spec.Capacity.DeepCopy()
			if before, err := resource.ParseQuantity(pv.Annotations[preResizeCapacity]); err == nil {
				status.Capacity[corev1.ResourceStorage] = before
			}
		}
		if claim.Status.Phase == corev1.ClaimPending && phase == corev1.ClaimBound {
			status.CurrentVolumeAttributesClassName = pv.Spec.VolumeAttributesClassName
		}
	}
	if equality.Semantic.DeepEqual(claim.Status, *status) {
		return claim, nil
	}
	written, err := k.client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("write phase %s of claim %s: %w", phase, queue.Key(claim), err)
	}
	k.claims.put(written)
	return written, nil
}
