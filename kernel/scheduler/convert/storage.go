package convert

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func convertClaim(claim *v1.PersistentVolumeClaim) *contractv1.Storage {
	out := &contractv1.Storage{
		AccessModes: accessModes(claim.Spec.AccessModes), VolumeMode: volumeMode(claim.Spec.VolumeMode),
		Bytes: claim.Spec.Resources.Requests.Storage().Value(), Phase: string(claim.Status.Phase),
	}
	if name := claim.Spec.StorageClassName; name != nil {
		out.HasClassName, out.ClassName = true, *name
	}
	if name, ok := claim.Annotations[v1.BetaStorageClassAnnotation]; ok {
		out.HasClassName, out.ClassName = true, name
	}
	if name := claim.Spec.VolumeAttributesClassName; name != nil {
		out.VolumeAttributesClass = *name
	}
	out.HasSelector, out.Selector = convertSelector(claim.Spec.Selector)
	if o := metav1.GetControllerOfNoCopy(claim); o != nil {
		out.Owner = &contractv1.OwnerReference{ApiVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, Uid: string(o.UID), Controller: true}
	}
	return out
}

func convertVolumeStorage(volume *v1.PersistentVolume) *contractv1.Storage {
	out := &contractv1.Storage{
		HasClassName: true, ClassName: volume.Spec.StorageClassName,
		AccessModes: accessModes(volume.Spec.AccessModes), VolumeMode: volumeMode(volume.Spec.VolumeMode),
		Bytes: volume.Spec.Capacity.Storage().Value(), Phase: string(volume.Status.Phase),
	}
	if name, ok := volume.Annotations[v1.BetaStorageClassAnnotation]; ok {
		out.ClassName = name
	}
	if name := volume.Spec.VolumeAttributesClassName; name != nil {
		out.VolumeAttributesClass = *name
	}
	if c := volume.Spec.ClaimRef; c != nil {
		out.Claim = &contractv1.ClaimReference{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}
	}
	return out
}

func accessModes(modes []v1.PersistentVolumeAccessMode) []string {
	var out []string
	for _, mode := range modes {
		out = append(out, string(mode))
	}
	return out
}

// volumeMode is Filesystem where nothing is said, as upstream defaults it.
func volumeMode(mode *v1.PersistentVolumeMode) string {
	if mode == nil {
		return string(v1.PersistentVolumeFilesystem)
	}
	return string(*mode)
}

func convertStorageClass(class *storagev1.StorageClass) *contractv1.StorageClass {
	out := &contractv1.StorageClass{Provisioner: class.Provisioner, Driver: migrated[class.Provisioner], VolumeBindingMode: string(storagev1.VolumeBindingImmediate)}
	if class.VolumeBindingMode != nil {
		out.VolumeBindingMode = string(*class.VolumeBindingMode)
	}
	for _, t := range class.AllowedTopologies {
		term := &contractv1.NodeSelectorTerm{}
		for _, e := range t.MatchLabelExpressions {
			term.MatchExpressions = append(term.MatchExpressions, &contractv1.Requirement{Key: e.Key, Operator: string(v1.NodeSelectorOpIn), Values: e.Values})
		}
		out.AllowedTopologies = append(out.AllowedTopologies, term)
	}
	return out
}

func convertDrivers(node *storagev1.CSINode) []*contractv1.Driver {
	var out []*contractv1.Driver
	for i := range node.Spec.Drivers {
		d := &node.Spec.Drivers[i]
		driver := &contractv1.Driver{Name: d.Name, NodeId: d.NodeID, TopologyKeys: d.TopologyKeys}
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			driver.HasLimit, driver.Limit = true, *d.Allocatable.Count
		}
		out = append(out, driver)
	}
	return out
}

func convertCSIDriver(driver *storagev1.CSIDriver) *contractv1.CSIDriver {
	is := func(flag *bool, otherwise bool) bool {
		if flag == nil {
			return otherwise
		}
		return *flag
	}
	return &contractv1.CSIDriver{
		StorageCapacity: is(driver.Spec.StorageCapacity, false),
		AttachRequired:  is(driver.Spec.AttachRequired, true),

		PreventPodSchedulingIfMissing: is(driver.Spec.PreventPodSchedulingIfMissing, false),
	}
}

func convertCapacity(capacity *storagev1.CSIStorageCapacity) *contractv1.Storage {
	out := &contractv1.Storage{HasClassName: true, ClassName: capacity.StorageClassName}
	if capacity.Capacity != nil {
		out.Bytes = capacity.Capacity.Value()
	}
	if capacity.MaximumVolumeSize != nil {
		out.MaximumVolumeBytes = capacity.MaximumVolumeSize.Value()
		if out.MaximumVolumeBytes == 0 {
			out.MaximumVolumeBytes = -1 // said, and nothing fits
		}
	}
	out.HasSelector, out.Selector = convertSelector(capacity.NodeTopology)
	return out
}

func convertAttachment(attachment *storagev1.VolumeAttachment) *contractv1.Attachment {
	out := &contractv1.Attachment{Attacher: attachment.Spec.Attacher, NodeName: attachment.Spec.NodeName, Attached: attachment.Status.Attached}
	if name := attachment.Spec.Source.PersistentVolumeName; name != nil {
		out.PersistentVolumeName = *name
	}
	return out
}
