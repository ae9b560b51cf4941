package resources

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const (
	maxAttachmentMetadata = 256 << 10
	maxVolumeErrorMessage = 1024
)

func volumeAttachmentKind() Kind {
	gvk := storagev1.SchemeGroupVersion.WithKind("VolumeAttachment")
	spec, status := storagev1.VolumeAttachmentSpec{}.SwaggerDoc(), storagev1.VolumeAttachmentStatus{}.SwaggerDoc()
	b := base{gvk: gvk}
	return Kind{
		GVK: gvk, Resource: "volumeattachments", Singular: "volumeattachment",
		New:     func() runtime.Object { return &storagev1.VolumeAttachment{} },
		NewList: func() runtime.Object { return &storagev1.VolumeAttachmentList{} },
		Strategy: &rules[*storagev1.VolumeAttachment]{
			base: b.resetting([]any{"status"}), conditional: true,
			prepareCreate:  func(a *storagev1.VolumeAttachment) { a.Status = storagev1.VolumeAttachmentStatus{} },
			prepareUpdate:  func(a, old *storagev1.VolumeAttachment) { a.Status = old.Status },
			validate:       validateVolumeAttachment,
			validateUpdate: validateVolumeAttachmentUpdate,
		},
		Status: &rules[*storagev1.VolumeAttachment]{
			base: b.resetting([]any{"metadata"}, []any{"spec"}), conditional: true,
			prepareUpdate: func(a, old *storagev1.VolumeAttachment) {
				a.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&a.ObjectMeta, &old.ObjectMeta)
			},
			validateUpdate: validateVolumeAttachmentUpdate,
		},
		Columns: cols(nameColumn(), column("Attacher", "string", "name", spec["attacher"], 0),
			stringColumn("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]), stringColumn("Node", spec["nodeName"]),
			column("Attached", "boolean", "", status["attached"], 0), ageColumn()),
		Row: row(func(a *storagev1.VolumeAttachment) []any {
			return []any{a.Name, a.Spec.Attacher, ptr.Deref(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached, ageCell(a.CreationTimestamp)}
		}),
	}
}

func setVolumeAttachmentDefaults(a *storagev1.VolumeAttachment) {
	if v := a.Spec.Source.InlineVolumeSpec; v != nil {
		roundUp(v.Capacity)
		setPersistentSourceDefaults(&v.PersistentVolumeSource)
	}
}

func validateVolumeAttachment(a *storagev1.VolumeAttachment) field.ErrorList {
	errs := validateMeta(&a.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, validateDriver(a.Spec.Attacher, specPath.Child("attacher"))...)
	source := specPath.Child("source")
	switch name, inline := a.Spec.Source.PersistentVolumeName, a.Spec.Source.InlineVolumeSpec; {
	case inline == nil && name == nil:
		errs = append(errs, field.Required(source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case inline != nil && name != nil:
		errs = append(errs, field.Forbidden(source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case inline != nil:
		errs = append(errs, validateInlineVolume(inline, source.Child("inlineVolumeSpec"))...)
	case *name == "":
		errs = append(errs, field.Required(source.Child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
	}
	errs = append(errs, invalidAll(specPath.Child("nodeName"), a.Spec.NodeName, apivalidation.NameIsDNSSubdomain(a.Spec.NodeName, false))...)
	size := 0
	for k, v := range a.Status.AttachmentMetadata {
		size += len(k) + len(v)
	}
	if size > maxAttachmentMetadata {
		errs = append(errs, field.TooLong(statusPath.Child("attachmentMetadata"), "", maxAttachmentMetadata))
	}
	errs = append(errs, validateVolumeError(a.Status.AttachError, statusPath.Child("attachError"))...)
	errs = append(errs, validateVolumeError(a.Status.DetachError, statusPath.Child("detachError"))...)
	if name := a.Spec.Source.PersistentVolumeName; name != nil {
		errs = append(errs, invalidAll(field.NewPath("spec.source.persistentVolumeName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
	}
	return errs
}

// validateInlineVolume: an in-tree volume of a pod that CSI took over, of which
// nothing but the CSI source and the access modes is said.
func validateInlineVolume(s *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	const elsewhere = "may not be specified in the context of inline volumes"
	var errs field.ErrorList
	forbid := func(name string, set bool) {
		if set {
			errs = append(errs, field.Forbidden(path.Child(name), elsewhere))
		}
	}
	forbid("claimRef", s.ClaimRef != nil)
	forbid("capacity", len(s.Capacity) != 0)
	if s.CSI == nil {
		errs = append(errs, field.Required(path.Child("csi"), "has to be specified in the context of inline volumes"))
	} else {
		errs = append(errs, validatePersistentCSI(s.CSI, path.Child("csi"))...)
	}
	errs = append(errs, validateAccessModes(s.AccessModes, path.Child("accessModes"), "")...)
	if p := s.PersistentVolumeReclaimPolicy; p != "" && p != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.Forbidden(path.Child("persistentVolumeReclaimPolicy"), "may only be Retain in the context of inline volumes"))
	}
	forbid("nodeAffinity", s.NodeAffinity != nil)
	forbid("storageClassName", s.StorageClassName != "")
	if m := s.VolumeMode; m != nil && *m != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.Forbidden(path.Child("volumeMode"), "may not specify volumeMode other than Filesystem in the context of inline volumes"))
	}
	return errs
}

func validateVolumeError(e *storagev1.VolumeError, path *field.Path) field.ErrorList {
	if e == nil {
		return nil
	}
	var errs field.ErrorList
	if len(e.Message) > maxVolumeErrorMessage {
		errs = append(errs, field.TooLong(path.Child("message"), "", maxAttachmentMetadata)) // the number that upstream names
	}
	if e.ErrorCode != nil && *e.ErrorCode < 0 {
		errs = append(errs, field.Invalid(path.Child("errorCode"), *e.ErrorCode, validation.InclusiveRangeError(0, math.MaxInt32)))
	}
	return errs
}

func validateVolumeAttachmentUpdate(a, old *storagev1.VolumeAttachment) field.ErrorList {
	return append(validateVolumeAttachment(a), apivalidation.ValidateImmutableField(a.Spec, old.Spec, specPath)...)
}
