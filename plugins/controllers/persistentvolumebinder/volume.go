package persistentvolumebinder

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// syncVolume writes the phase of a volume, and reclaims one whose claim is gone.
func (k *keeper) syncVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	pv, err := k.migrateVolume(ctx, pv)
	if err != nil {
		return err
	}
	if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" {
		// It has no claim, or is kept for one by name.
		_, err := k.setVolumePhase(ctx, pv, corev1.VolumeAvailable, "")
		return err
	}
	claim, err := k.claimOf(ctx, pv)
	if err != nil {
		return err
	}
	switch {
	case claim == nil:
		return k.release(ctx, pv)
	case claim.Spec.VolumeName == "":
		if volume.CheckVolumeModeMismatches(&claim.Spec, &pv.Spec) {
			k.recorder.Event(pv, corev1.EventTypeWarning, volumeMismatch,
				fmt.Sprintf("Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", claim.Name))
			k.recorder.Event(claim, corev1.EventTypeWarning, volumeMismatch,
				fmt.Sprintf("Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", pv.Name))
			return nil
		}
		k.claimLoop.Add(queue.Key(claim)) // its sync ends the binding
		return nil
	case claim.Spec.VolumeName == pv.Name:
		_, err := k.setVolumePhase(ctx, pv, corev1.VolumeBound, "")
		return err
	case metav1.HasAnnotation(pv.ObjectMeta, volume.AnnDynamicallyProvisioned) && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		// It was made for the claim, which took another meanwhile.
		return k.release(ctx, pv)
	}
	return k.unbind(ctx, pv)
}

// claimOf is the claim that a volume is bound to by UID, nil if it is gone. Before a volume is
// released, the API server is asked: a cache may be behind.
func (k *keeper) claimOf(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	ref := pv.Spec.ClaimRef
	claim, there := k.claims.get(claimKey(ref))
	if there && claim.UID == ref.UID {
		return claim, nil
	}
	if !there && (pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed) {
		return nil, nil
	}
	claim, err := k.client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read claim %s of volume %s: %w", claimKey(ref), pv.Name, err)
	}
	if claim.UID != ref.UID {
		return nil, nil // another of its name
	}
	return claim, nil
}

func (k *keeper) release(ctx context.Context, pv *corev1.PersistentVolume) (err error) {
	if pv.Status.Phase != corev1.VolumeReleased && pv.Status.Phase != corev1.VolumeFailed {
		if pv, err = k.setVolumePhase(ctx, pv, corev1.VolumeReleased, ""); err != nil {
			return err
		}
	}
	return k.reclaim(ctx, pv)
}

// reclaim does what the policy of a released volume says.
func (k *keeper) reclaim(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Annotations[volume.AnnMigratedTo] != "" {
		return nil // its CSI driver's
	}
	switch pv.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return nil
	case corev1.PersistentVolumeReclaimRecycle:
		return k.recycle(ctx, pv)
	case corev1.PersistentVolumeReclaimDelete:
		return k.deleteVolume(ctx, pv)
	}
	return k.fail(ctx, pv, unknownReclaimPolicy, "Volume has unrecognized PersistentVolumeReclaimPolicy")
}

func (k *keeper) recycle(ctx context.Context, pv *corev1.PersistentVolume) error {
	if released, err := k.stillReleased(ctx, pv); err != nil || !released {
		return err
	}
	key := claimKey(pv.Spec.ClaimRef)
	pods, err := k.users(key)
	if err != nil {
		return err
	}
	if _, there := k.claims.get(key); len(pods) > 0 && !there {
		names := make([]string, len(pods))
		for i, pod := range pods {
			names[i] = queue.Key(pod)
		}
		slices.Sort(names)
		k.recorder.Event(pv, corev1.EventTypeNormal, volumeFailedRecycle, "Volume is used by pods: "+strings.Join(names, ","))
		return nil
	}
	return k.fail(ctx, pv, volumeFailedRecycle, "No recycler plugin found for the volume!")
}

// deleteVolume leaves a volume to the provisioner that made it. Others fail: no code here
// deletes them.
func (k *keeper) deleteVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	provisioner := pv.Annotations[volume.AnnDynamicallyProvisioned]
	var message string
	switch {
	case provisioner != "" && !inTree(provisioner):
		return nil
	case provisioner != "":
		message = "no volume plugin matched name: " + provisioner
	case pv.Spec.CSI != nil:
		return nil
	default:
		message = fmt.Sprintf("error getting deleter volume plugin for volume %q: no deletable volume plugin matched", pv.Name)
	}
	if released, err := k.stillReleased(ctx, pv); err != nil || !released {
		return err
	}
	return k.fail(ctx, pv, volumeFailedDelete, message)
}

// stillReleased reads the volume again, since something irrevocable follows.
func (k *keeper) stillReleased(ctx context.Context, pv *corev1.PersistentVolume) (bool, error) {
	now, err := k.client.CoreV1().PersistentVolumes().Get(ctx, pv.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read volume %s: %w", pv.Name, err)
	}
	ref := now.Spec.ClaimRef
	if now.UID != pv.UID || ref == nil || ref.UID == "" {
		return false, nil
	}
	claim, there := k.claims.get(claimKey(ref))
	if there && claim.UID == ref.UID {
		return claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv.Name, nil
	}
	return true, nil
}

func (k *keeper) fail(ctx context.Context, pv *corev1.PersistentVolume, reason, message string) error {
	if pv.Status.Phase == corev1.VolumeFailed {
		return nil
	}
	written, err := k.setVolumePhase(ctx, pv, corev1.VolumeFailed, message)
	if err == nil {
		k.recorder.Event(written, corev1.EventTypeWarning, reason, message)
	}
	return err
}
