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

// migrate writes into annotations which CSI driver has taken over from their provisioner, which
// the first of the keys names. It says whether that changed anything.
func (k *keeper) migrate(annotations map[string]string, keys ...string) bool {
	for _, key := range keys {
		provisioner, there := annotations[key]
		if !there {
			continue
		}
		driver := ""
		if k.translator.IsMigratableIntreePluginByName(provisioner) {
			name, err := k.translator.GetCSINameFromInTreeName(provisioner)
			if err != nil {
				return false
			}
			driver = name
		}
		switch was := annotations[volume.AnnMigratedTo]; {
		case was == driver:
			return false
		case driver == "":
			delete(annotations, volume.AnnMigratedTo)
		default:
			annotations[volume.AnnMigratedTo] = driver
		}
		return true
	}
	return false
}

func (k *keeper) migrateClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	changed := claim.DeepCopy()
	if !k.migrate(changed.Annotations, volume.AnnStorageProvisioner, volume.AnnBetaStorageProvisioner) {
		return claim, nil
	}
	written, err := k.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("annotate claim %s with its CSI driver: %w", queue.Key(claim), err)
	}
	k.claims.put(written)
	return written, nil
}

// migrateVolume also takes the finalizer of in-tree volumes off one that a CSI driver has
// taken over, or that is not to be deleted with its claim.
func (k *keeper) migrateVolume(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	changed := pv.DeepCopy()
	dirty := k.migrate(changed.Annotations, volume.AnnDynamicallyProvisioned)
	if provisioner := pv.Annotations[volume.AnnDynamicallyProvisioned]; inTree(provisioner) &&
		(k.translator.IsMigratableIntreePluginByName(provisioner) || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete) {
		if i := slices.Index(changed.Finalizers, volume.PVDeletionInTreeProtectionFinalizer); i >= 0 {
			changed.Finalizers, dirty = slices.Delete(changed.Finalizers, i, i+1), true
		}
	}
	if !dirty {
		return pv, nil
	}
	written, err := k.client.CoreV1().PersistentVolumes().Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("annotate volume %s with its CSI driver: %w", pv.Name, err)
	}
	k.volumes.put(written)
	return written, nil
}
