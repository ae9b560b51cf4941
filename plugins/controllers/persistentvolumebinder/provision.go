package persistentvolumebinder

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"

	"pintle.dev/pintle/plugins/controllers/queue"
)

const (
	defaultClass     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
)

// inTree says whether a provisioner is one of those that Kubernetes itself once held.
func inTree(provisioner string) bool { return strings.HasPrefix(provisioner, "kubernetes.io/") }

// assignDefaultClass writes the default class into a claim without one, and says whether it did.
func (k *keeper) assignDefaultClass(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	if volume.PersistentVolumeClaimHasClass(claim) {
		return false, nil
	}
	class, err := k.findDefaultClass()
	if err != nil || class == nil {
		return false, err
	}
	changed := claim.DeepCopy()
	changed.Spec.StorageClassName = &class.Name
	written, err := k.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return false, err
	}
	k.claims.put(written)
	return true, nil
}

// findDefaultClass is the newest default class; of two of the same time, the first by name.
func (k *keeper) findDefaultClass() (*storagev1.StorageClass, error) {
	all, err := k.classes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(c *storagev1.StorageClass) bool {
		return c.Annotations[defaultClass] != "true" && c.Annotations[betaDefaultClass] != "true"
	})
	if len(all) == 0 {
		return nil, nil
	}
	return slices.MinFunc(all, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}), nil
}

// provision asks the provisioner of a claim's class for a volume.
func (k *keeper) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if !k.cfg.EnableDynamicProvisioning {
		return nil
	}
	class, err := k.classes.Get(volume.GetPersistentVolumeClaimClass(claim))
	if err != nil {
		k.recorder.Event(claim, corev1.EventTypeWarning, provisioningFailed, err.Error())
		return nil // a class that comes is seen by the next look at everything
	}
	provisioner := class.Provisioner
	switch {
	case k.translator.IsMigratableIntreePluginByName(provisioner):
		if provisioner, err = k.translator.GetCSINameFromInTreeName(provisioner); err != nil {
			k.recorder.Event(claim, corev1.EventTypeWarning, provisioningFailed, fmt.Sprintf("error getting CSI name for In tree plugin %s: %v", class.Provisioner, err))
			return nil
		}
	case inTree(provisioner):
		k.recorder.Event(claim, corev1.EventTypeWarning, provisioningFailed, "no volume plugin matched name: "+provisioner)
		return nil
	}
	claim, err = k.setProvisioner(ctx, claim, provisioner)
	if err != nil {
		if !apierrors.IsConflict(err) {
			k.recorder.Event(claim, corev1.EventTypeWarning, provisioningFailed, fmt.Sprintf("Error saving claim: %v", err))
		}
		return err
	}
	k.recorder.Event(claim, corev1.EventTypeNormal, externalProvisioning, fmt.Sprintf("Waiting for a volume to be created either by the external provisioner '%s' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.", provisioner))
	return nil
}

// setProvisioner writes the annotation that a provisioner looks for. With an error it returns
// the claim as it was.
func (k *keeper) setProvisioner(ctx context.Context, claim *corev1.PersistentVolumeClaim, provisioner string) (*corev1.PersistentVolumeClaim, error) {
	if claim.Annotations[volume.AnnStorageProvisioner] == provisioner {
		return claim, nil
	}
	changed := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, volume.AnnBetaStorageProvisioner, provisioner)
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, volume.AnnStorageProvisioner, provisioner)
	k.migrate(changed.Annotations, volume.AnnStorageProvisioner, volume.AnnBetaStorageProvisioner)
	written, err := k.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return claim, fmt.Errorf("ask provisioner %s for a volume for claim %s: %w", provisioner, queue.Key(claim), err)
	}
	k.claims.put(written)
	return written, nil
}
