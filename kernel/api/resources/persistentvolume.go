package resources

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func persistentVolumeKind() Kind {
	gvk := corev1.SchemeGroupVersion.WithKind("PersistentVolume")
	b := base{gvk: gvk}
	return Kind{
		GVK: gvk, Resource: "persistentvolumes", Singular: "persistentvolume", ShortNames: []string{"pv"},
		New:     func() runtime.Object { return &corev1.PersistentVolume{} },
		NewList: func() runtime.Object { return &corev1.PersistentVolumeList{} },
		Strategy: &rules[*corev1.PersistentVolume]{
			base: b.resetting([]any{"status"}),
			prepareCreate: func(v *corev1.PersistentVolume) {
				now := metav1.Now()
				v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
			},
			prepareUpdate: func(v, old *corev1.PersistentVolume) { v.Status = old.Status },
			validate:      func(v *corev1.PersistentVolume) field.ErrorList { return validatePersistentVolume(v, false) },
			validateUpdate: func(v, old *corev1.PersistentVolume) field.ErrorList {
				// A value that no node can have may stay where it was stored.
				stored := old.Spec.NodeAffinity != nil && badNodeValues(old.Spec.NodeAffinity.Required)
				return append(validatePersistentVolume(v, stored), validatePersistentVolumeUpdate(v, old)...)
			},
			warnCreate: persistentVolumeWarnings,
			warnUpdate: func(v, _ *corev1.PersistentVolume) []string { return persistentVolumeWarnings(v) },
		},
		Status: &rules[*corev1.PersistentVolume]{
			base: b.resetting([]any{"spec"}),
			prepareUpdate: func(v, old *corev1.PersistentVolume) {
				v.Spec = old.Spec
				s, was := &v.Status, &old.Status
				switch {
				case s.Phase == was.Phase && s.LastPhaseTransitionTime == nil:
					s.LastPhaseTransitionTime = was.LastPhaseTransitionTime
				case s.Phase != was.Phase && (s.LastPhaseTransitionTime == nil || s.LastPhaseTransitionTime.Equal(was.LastPhaseTransitionTime)):
					now := metav1.Now()
					s.LastPhaseTransitionTime = &now
				}
			},
			validateUpdate: func(v, old *corev1.PersistentVolume) field.ErrorList {
				return validateMetaUpdate(&v.ObjectMeta, &old.ObjectMeta)
			},
		},
		Columns: persistentVolumeColumns(), Row: row(persistentVolumeCells),
	}
}

func setPersistentVolumeDefaults(v *corev1.PersistentVolume) {
	if v.Status.Phase == "" {
		v.Status.Phase = corev1.VolumePending
	}
	s := &v.Spec
	if s.PersistentVolumeReclaimPolicy == "" {
		s.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	if s.VolumeMode == nil {
		s.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	}
	roundUp(s.Capacity)
	setPersistentSourceDefaults(&s.PersistentVolumeSource)
}

func setPersistentSourceDefaults(s *corev1.PersistentVolumeSource) {
	switch {
	case s.HostPath != nil:
		setHostPathDefaults(s.HostPath)
	case s.ISCSI != nil:
		orElse(&s.ISCSI.ISCSIInterface, "default")
	case s.RBD != nil:
		setRBDDefaults(&s.RBD.RBDPool, &s.RBD.RadosUser, &s.RBD.Keyring)
	case s.AzureDisk != nil:
		setAzureDiskDefaults(s.AzureDisk)
	case s.ScaleIO != nil:
		setScaleIODefaults(&s.ScaleIO.StorageMode, &s.ScaleIO.FSType)
	}
}

func validatePersistentVolume(v *corev1.PersistentVolume, anyNodeValue bool) field.ErrorList {
	errs := validateMeta(&v.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
	s := &v.Spec
	errs = append(errs, validateAccessModes(s.AccessModes, specPath.Child("accessModes"), "")...)
	capacity := specPath.Child("capacity")
	if len(s.Capacity) == 0 {
		errs = append(errs, field.Required(capacity, ""))
	}
	if _, ok := s.Capacity[corev1.ResourceStorage]; !ok || len(s.Capacity) > 1 {
		errs = append(errs, field.NotSupported(capacity, s.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for name, q := range s.Capacity {
		if q.Sign() < 0 {
			errs = append(errs, field.Invalid(capacity.Key(string(name)), q.Value(), "must be a valid resource quantity"))
		}
		if q.Sign() <= 0 {
			errs = append(errs, field.Invalid(capacity.Key(string(name)), q.String(), notPositive))
		}
	}
	if p := s.PersistentVolumeReclaimPolicy; p != "" {
		errs = append(errs, supported(specPath.Child("persistentVolumeReclaimPolicy"), p,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	}
	if a := s.NodeAffinity; a != nil {
		if a.Required == nil {
			errs = append(errs, field.Required(specPath.Child("nodeAffinity", "required"), "must specify required node constraints"))
		} else {
			errs = append(errs, validateNodeSelector(a.Required, anyNodeValue, specPath.Child("nodeAffinity", "required"))...)
		}
	}
	errs = append(errs, validatePersistentSource(v)...)
	if s.HostPath != nil && path.Clean(s.HostPath.Path) == "/" && s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(specPath.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'"))
	}
	if s.StorageClassName != "" {
		errs = append(errs, invalidAll(specPath.Child("storageClassName"), s.StorageClassName, apivalidation.NameIsDNSSubdomain(s.StorageClassName, false))...)
	}
	if s.VolumeMode != nil {
		errs = append(errs, supported(specPath.Child("volumeMode"), *s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	}
	if c := s.VolumeAttributesClassName; c != nil {
		p := specPath.Child("volumeAttributesClassName")
		if *c == "" {
			errs = append(errs, field.Required(p, "an empty string is disallowed"))
		} else {
			errs = append(errs, invalidAll(p, *c, apivalidation.NameIsDNSSubdomain(*c, false))...)
		}
		if s.CSI == nil {
			errs = append(errs, field.Required(specPath.Child("csi"), "has to be specified when using volumeAttributesClassName"))
		}
	}
	return errs
}

// validateAccessModes: at least one, known, and ReadWriteOncePod alone.
func validateAccessModes(modes []corev1.PersistentVolumeAccessMode, p *field.Path, none string) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(p, none)}
	}
	var errs field.ErrorList
	alone, others := false, false
	for _, m := range modes {
		bad := supported(p, m, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
		errs = append(errs, bad...)
		alone = alone || m == corev1.ReadWriteOncePod
		others = others || len(bad) == 0 && m != corev1.ReadWriteOncePod
	}
	if alone && others {
		errs = append(errs, field.Forbidden(p, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func validatePersistentVolumeUpdate(v, old *corev1.PersistentVolume) field.ErrorList {
	errs := validateMetaUpdate(&v.ObjectMeta, &old.ObjectMeta)
	source := v.Spec.PersistentVolumeSource
	if was := old.Spec.CSI; was != nil && was.ControllerExpandSecretRef == nil && source.CSI != nil && source.CSI.ControllerExpandSecretRef != nil {
		// The secret for expansion may be added later.
		csi := *source.CSI
		csi.ControllerExpandSecretRef = nil
		source.CSI = &csi
	}
	if !apiequality.Semantic.DeepEqual(source, old.Spec.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(specPath.Child("persistentvolumesource"),
			fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v", diff.Diff(old.Spec.PersistentVolumeSource, source))))
	}
	errs = append(errs, apivalidation.ValidateImmutableField(v.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil && !apiequality.Semantic.DeepEqual(withNewLabels(v.Spec.NodeAffinity), withNewLabels(old.Spec.NodeAffinity)) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), v.Spec.NodeAffinity, apivalidation.FieldImmutableErrorMsg+", except for updating from beta label to GA"))
	}
	if old.Spec.VolumeAttributesClassName != nil && v.Spec.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(specPath.Child("volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return errs
}

// newNodeLabels are what beta labels of nodes have become.
var newNodeLabels = map[string]string{
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	"beta.kubernetes.io/os":             corev1.LabelOSStable,
	"beta.kubernetes.io/arch":           corev1.LabelArchStable,
	corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
}

// withNewLabels is a with its beta labels replaced.
func withNewLabels(a *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if a == nil || a.Required == nil {
		return a
	}
	a = a.DeepCopy()
	for i := range a.Required.NodeSelectorTerms {
		for j := range a.Required.NodeSelectorTerms[i].MatchExpressions {
			e := &a.Required.NodeSelectorTerms[i].MatchExpressions[j]
			if key := newNodeLabels[e.Key]; key != "" {
				e.Key = key
			}
		}
	}
	return a
}

func persistentVolumeWarnings(v *corev1.PersistentVolume) []string {
	var out []string
	if _, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		out = append(out, fmt.Sprintf("metadata.annotations[%s]: deprecated since v1.8; use \"storageClassName\" attribute instead", corev1.BetaStorageClassAnnotation))
	}
	if _, ok := v.Annotations[corev1.MountOptionAnnotation]; ok {
		out = append(out, fmt.Sprintf("metadata.annotations[%s]: deprecated since v1.31; use \"mountOptions\" attribute instead", corev1.MountOptionAnnotation))
	}
	if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		out = append(out, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		out = append(out, nodeSelectorWarnings(a.Required, specPath.Child("nodeAffinity", "required"))...)
	}
	s := &v.Spec.PersistentVolumeSource
	for _, old := range []struct {
		set bool
		msg string
	}{
		{s.CephFS != nil, "spec.cephfs: deprecated in v1.28, non-functional in v1.31+"},
		{s.PhotonPersistentDisk != nil, "spec.photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+"},
		{s.ScaleIO != nil, "spec.scaleIO: deprecated in v1.16, non-functional in v1.22+"},
		{s.StorageOS != nil, "spec.storageOS: deprecated in v1.22, non-functional in v1.25+"},
		{s.Glusterfs != nil, "spec.glusterfs: deprecated in v1.25, non-functional in v1.26+"},
		{s.RBD != nil, "spec.rbd: deprecated in v1.28, non-functional in v1.31+"},
	} {
		if old.set {
			out = append(out, old.msg)
		}
	}
	return out
}
