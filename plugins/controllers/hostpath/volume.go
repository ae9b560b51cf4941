package hostpath

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/localvolumes"
)

// removalPause is how long a removal that goes on is left alone.
const removalPause = time.Second

// isOurs says whether a volume is annotated as one of this provisioner. Each user who may write volumes may write that.
func isOurs(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[volume.AnnDynamicallyProvisioned] == localvolumes.Provisioner
}

// syncVolume removes the data of a released volume and the volume itself, and takes the finalizer off one that is to
// be retained.
func (k *keeper) syncVolume(ctx context.Context, name string) error {
	pv, err := k.volumes.Get(name)
	if apierrors.IsNotFound(err) || err == nil && !isOurs(pv) {
		return nil
	}
	if err != nil {
		return err
	}
	if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return k.unprotect(ctx, pv)
	}
	if pv.Status.Phase != corev1.VolumeReleased {
		return nil
	}
	// What follows cannot be taken back: the API server is asked, not the cache.
	if pv, err = k.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("read volume %s: %w", name, err)
	}
	if released, err := k.released(ctx, pv); err != nil || !released {
		return err
	}
	nodes, err := k.holders(pv)
	if err != nil {
		k.recorder.Event(pv, corev1.EventTypeWarning, volumeFailedDelete, err.Error())
		if errors.Is(err, errForeign) {
			return nil
		}
		return err
	}
	for _, node := range nodes {
		gone, err := k.remove(ctx, node.Name, pv.Name)
		if err != nil {
			k.recorder.Event(pv, corev1.EventTypeWarning, volumeFailedDelete, err.Error())
			return fmt.Errorf("remove the data of volume %s: %w", name, err)
		}
		if !gone {
			return &queue.After{Delay: removalPause}
		}
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pv.UID}}
	if err := k.client.CoreV1().PersistentVolumes().Delete(ctx, name, options); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete volume %s: %w", name, err)
	}
	fresh, err := k.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && fresh.UID != pv.UID {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read volume %s: %w", name, err)
	}
	return k.unprotect(ctx, fresh)
}

// released says whether a volume is still one to be deleted: its claim is gone, or has another volume.
func (k *keeper) released(ctx context.Context, pv *corev1.PersistentVolume) (bool, error) {
	ref := pv.Spec.ClaimRef
	if !isOurs(pv) || pv.Status.Phase != corev1.VolumeReleased || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || ref == nil || ref.UID == "" {
		return false, nil
	}
	claim, err := k.client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read claim %s/%s of volume %s: %w", ref.Namespace, ref.Name, pv.Name, err)
	}
	return claim.UID != ref.UID || claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv.Name, nil
}

// errForeign is in the error about a volume that this provisioner never made.
var errForeign = errors.New("this provisioner did not make it; delete its data and the volume by hand")

// holders are the nodes that a volume is on. A volume that is not written as this provisioner writes them is refused.
func (k *keeper) holders(pv *corev1.PersistentVolume) ([]*corev1.Node, error) {
	hostname := hostnameOf(pv)
	if !localvolumes.Valid(pv.Name) || pv.Spec.Local == nil || hostname == "" {
		return nil, fmt.Errorf("volume %s is not named and placed as local volumes are: %w", pv.Name, errForeign)
	}
	nodes, err := k.withHostname(hostname)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("the node with %s=%s, on which the data is, does not exist; take the finalizer %s off volume %s to give its data up",
			corev1.LabelHostname, hostname, volume.PVDeletionProtectionFinalizer, pv.Name)
	}
	for _, node := range nodes {
		if node.Annotations[localvolumes.Annotation] == "" { // an agent may write it yet
			return nil, fmt.Errorf("node %s does not say where its local volumes are: annotation %s is missing", node.Name, localvolumes.Annotation)
		}
		if want := filepath.Join(node.Annotations[localvolumes.Annotation], pv.Name); pv.Spec.Local.Path != want {
			return nil, fmt.Errorf("volume %s has the path %s, and node %s would keep it at %s: %w", pv.Name, pv.Spec.Local.Path, node.Name, want, errForeign)
		}
	}
	return nodes, nil
}

// hostnameOf is the one host name that a volume's affinity asks for, if it asks for nothing else.
func hostnameOf(pv *corev1.PersistentVolume) string {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil || len(pv.Spec.NodeAffinity.Required.NodeSelectorTerms) != 1 {
		return ""
	}
	term := pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0]
	if len(term.MatchFields) > 0 || len(term.MatchExpressions) != 1 {
		return ""
	}
	e := term.MatchExpressions[0]
	if e.Key != corev1.LabelHostname || e.Operator != corev1.NodeSelectorOpIn || len(e.Values) != 1 {
		return ""
	}
	return e.Values[0]
}

// unprotect takes the provisioner's finalizer off.
func (k *keeper) unprotect(ctx context.Context, pv *corev1.PersistentVolume) error {
	i := slices.Index(pv.Finalizers, volume.PVDeletionProtectionFinalizer)
	if i < 0 {
		return nil
	}
	changed := pv.DeepCopy()
	changed.Finalizers = slices.Delete(changed.Finalizers, i, i+1)
	if _, err := k.client.CoreV1().PersistentVolumes().Update(ctx, changed, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take the finalizer off volume %s: %w", pv.Name, err)
	}
	return nil
}
