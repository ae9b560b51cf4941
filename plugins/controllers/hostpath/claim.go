package hostpath

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/reference"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/localvolumes"
)

// Reasons of events, as those of every external provisioner.
const (
	provisioning          = "Provisioning"
	provisioningFailed    = "ProvisioningFailed"
	provisioningSucceeded = "ProvisioningSucceeded"
	volumeFailedDelete    = "VolumeFailedDelete"
)

const (
	defaultClass     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
)

// asksFor says whether a claim asks this provisioner for a volume.
func asksFor(claim *corev1.PersistentVolumeClaim) bool {
	name, there := claim.Annotations[volume.AnnStorageProvisioner]
	if !there {
		name = claim.Annotations[volume.AnnBetaStorageProvisioner]
	}
	return name == localvolumes.Provisioner && claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}

// syncClaim makes the volume that a claim asks for.
func (k *keeper) syncClaim(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	claim, err := k.claims.PersistentVolumeClaims(namespace).Get(name)
	if apierrors.IsNotFound(err) || err == nil && !asksFor(claim) {
		return nil
	}
	if err != nil {
		return err
	}
	class, err := k.classes.Get(volume.GetPersistentVolumeClaimClass(claim))
	if apierrors.IsNotFound(err) || err == nil && class.Provisioner != localvolumes.Provisioner {
		return nil // the binder says so
	}
	if err != nil {
		return err
	}
	if _, err := k.volumes.Get(localvolumes.Name(claim.UID)); err == nil {
		return nil // the binder does the rest
	}
	if err := refuse(claim, class); err != nil {
		k.fail(claim, class, err)
		return nil // until the claim or its class is another
	}
	selected := claim.Annotations[volume.AnnSelectedNode]
	if selected == "" {
		return nil // the scheduler's turn
	}
	k.recorder.Event(claim, corev1.EventTypeNormal, provisioning, fmt.Sprintf("External provisioner is provisioning volume for claim %q", key))
	node, err := k.offer(selected)
	if err != nil {
		k.fail(claim, class, err)
		return k.reschedule(ctx, claim)
	}
	pv, err := newVolume(claim, class, node)
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		k.fail(claim, class, err)
		return fmt.Errorf("create volume %s for claim %s: %w", pv.Name, key, err)
	}
	k.recorder.Event(claim, corev1.EventTypeNormal, provisioningSucceeded, "Successfully provisioned volume "+pv.Name)
	return nil
}

func (k *keeper) fail(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, err error) {
	k.recorder.Event(claim, corev1.EventTypeWarning, provisioningFailed, fmt.Sprintf("failed to provision volume with StorageClass %q: %v", class.Name, err))
}

// refuse says which wish of a claim or its class this provisioner cannot meet.
func refuse(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	switch {
	case !localvolumes.Valid(localvolumes.Name(claim.UID)):
		return fmt.Errorf("the claim has the UID %q, by which no volume can be named", claim.UID)
	case ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate) != storagev1.VolumeBindingWaitForFirstConsumer:
		return errors.New("a volume is on one node: the class needs volumeBindingMode WaitForFirstConsumer")
	case len(class.Parameters) > 0:
		return errors.New("the class has parameters, and this provisioner takes none")
	case len(class.MountOptions) > 0:
		return errors.New("mountOptions of the class are not supported: a volume is a directory")
	case ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) != corev1.PersistentVolumeFilesystem:
		return errors.New("volumeMode Block is not supported: a volume is a directory")
	case slices.ContainsFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m != corev1.ReadWriteOnce && m != corev1.ReadWriteOncePod
	}):
		return errors.New("a volume is on one node: only the access modes ReadWriteOnce and ReadWriteOncePod are supported")
	case claim.Spec.Selector != nil:
		return errors.New("claim Selector is not supported")
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil:
		return errors.New("dataSource is not supported: a volume is empty at first")
	case ptr.Deref(claim.Spec.VolumeAttributesClassName, "") != "":
		return errors.New("volumeAttributesClassName is not supported")
	}
	return nil
}

// offer is the node by name, if it has a place for volumes and a label that only it can be found by.
func (k *keeper) offer(name string) (*corev1.Node, error) {
	node, err := k.nodes.Get(name)
	if err != nil {
		return nil, fmt.Errorf("failed to get target node: %w", err)
	}
	if root := node.Annotations[localvolumes.Annotation]; !filepath.IsAbs(root) || filepath.Clean(root) != root {
		return nil, fmt.Errorf("node %s has no local volumes: annotation %s is not a clean absolute path", name, localvolumes.Annotation)
	}
	same, err := k.withHostname(node.Labels[corev1.LabelHostname])
	if err != nil {
		return nil, err
	}
	if len(same) != 1 {
		return nil, fmt.Errorf("node %s: %d nodes have its label %s=%q", name, len(same), corev1.LabelHostname, node.Labels[corev1.LabelHostname])
	}
	return node, nil
}

func (k *keeper) withHostname(hostname string) ([]*corev1.Node, error) {
	if hostname == "" {
		return nil, nil
	}
	return k.nodes.List(labels.SelectorFromSet(labels.Set{corev1.LabelHostname: hostname}))
}

// reschedule lets the scheduler choose another node.
func (k *keeper) reschedule(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	changed := claim.DeepCopy()
	delete(changed.Annotations, volume.AnnSelectedNode)
	if _, err := k.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("take the node off claim %s: %w", queue.Key(claim), err)
	}
	return nil
}

func newVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node) (*corev1.PersistentVolume, error) {
	ref, err := reference.GetReference(scheme.Scheme, claim)
	if err != nil {
		return nil, fmt.Errorf("refer to claim %s: %w", queue.Key(claim), err)
	}
	name := localvolumes.Name(claim.UID)
	policy := ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{volume.AnnDynamicallyProvisioned: localvolumes.Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes: claim.Spec.AccessModes, ClaimRef: ref, VolumeMode: ptr.To(corev1.PersistentVolumeFilesystem),
			PersistentVolumeReclaimPolicy: policy, StorageClassName: class.Name,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: filepath.Join(node.Annotations[localvolumes.Annotation], name)}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node.Labels[corev1.LabelHostname]}}},
			}}}},
		},
	}
	if policy == corev1.PersistentVolumeReclaimDelete {
		pv.Finalizers = []string{volume.PVDeletionProtectionFinalizer}
	}
	return pv, nil
}

// makeClass makes the configured class unless there is one of its name, whatever that is: it is the user's.
func (k *keeper) makeClass(ctx context.Context, name string) error {
	all, err := k.classes.List(labels.Everything())
	if err != nil {
		return err
	}
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: localvolumes.Provisioner,
		ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete), VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	isDefault := func(c *storagev1.StorageClass) bool {
		return c.Annotations[defaultClass] == "true" || c.Annotations[betaDefaultClass] == "true"
	}
	if !slices.ContainsFunc(all, isDefault) {
		metav1.SetMetaDataAnnotation(&class.ObjectMeta, defaultClass, "true")
	}
	if _, err := k.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create storage class %s: %w", name, err)
	}
	return nil
}
