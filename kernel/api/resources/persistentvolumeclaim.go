package resources

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func persistentVolumeClaimKind() Kind {
	gvk := corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
	b := base{gvk: gvk, namespaced: true}
	return Kind{
		GVK: gvk, Resource: "persistentvolumeclaims", Singular: "persistentvolumeclaim", ShortNames: []string{"pvc"},
		New:     func() runtime.Object { return &corev1.PersistentVolumeClaim{} },
		NewList: func() runtime.Object { return &corev1.PersistentVolumeClaimList{} },
		Strategy: &rules[*corev1.PersistentVolumeClaim]{
			base: b.resetting([]any{"status"}),
			prepareCreate: func(c *corev1.PersistentVolumeClaim) {
				c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
				dropForeignSource(&c.Spec, nil)
				normalizeDataSource(&c.Spec)
			},
			prepareUpdate: func(c, old *corev1.PersistentVolumeClaim) {
				c.Status = old.Status
				dropForeignSource(&c.Spec, &old.Spec)
				normalizeDataSource(&c.Spec)
			},
			warnCreate:     claimWarnings,
			warnUpdate:     func(c, _ *corev1.PersistentVolumeClaim) []string { return claimWarnings(c) },
			validate:       validateClaim,
			validateUpdate: validateClaimUpdate,
		},
		Status: &rules[*corev1.PersistentVolumeClaim]{
			base:           b.resetting([]any{"spec"}),
			prepareUpdate:  func(c, old *corev1.PersistentVolumeClaim) { c.Spec = old.Spec },
			validateUpdate: validateClaimStatusUpdate,
		},
		Columns: persistentVolumeClaimColumns(), Row: row(persistentVolumeClaimCells),
	}
}

func setPersistentVolumeClaimDefaults(c *corev1.PersistentVolumeClaim) {
	if c.Status.Phase == "" {
		c.Status.Phase = corev1.ClaimPending
	}
	setClaimSpecDefaults(&c.Spec)
	roundUp(c.Status.Capacity)
	roundUp(c.Status.AllocatedResources)
}

func setClaimSpecDefaults(s *corev1.PersistentVolumeClaimSpec) {
	if s.VolumeMode == nil {
		s.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	}
	roundUp(s.Resources.Limits)
	roundUp(s.Resources.Requests)
}

// dropForeignSource clears a source in another namespace, which is behind a gate
// that is off, unless the stored claim has a source.
func dropForeignSource(s, old *corev1.PersistentVolumeClaimSpec) {
	if s.DataSourceRef != nil && ptr.Deref(s.DataSourceRef.Namespace, "") != "" && (old == nil || old.DataSourceRef == nil) {
		s.DataSourceRef = nil
	}
}

// normalizeDataSource drops a dataSource that is neither a claim nor a
// snapshot, as old servers did, and copies between it and dataSourceRef.
func normalizeDataSource(s *corev1.PersistentVolumeClaimSpec) {
	if d := s.DataSource; d != nil && s.DataSourceRef == nil {
		group := ptr.Deref(d.APIGroup, "")
		if !(d.Kind == "PersistentVolumeClaim" && group == "") && !(d.Kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io") {
			s.DataSource = nil
		}
	}
	switch {
	case s.DataSource != nil && s.DataSourceRef == nil:
		s.DataSourceRef = &corev1.TypedObjectReference{APIGroup: s.DataSource.APIGroup, Kind: s.DataSource.Kind, Name: s.DataSource.Name}
	case s.DataSource == nil && s.DataSourceRef != nil && ptr.Deref(s.DataSourceRef.Namespace, "") == "":
		s.DataSource = &corev1.TypedLocalObjectReference{APIGroup: s.DataSourceRef.APIGroup, Kind: s.DataSourceRef.Kind, Name: s.DataSourceRef.Name}
	}
}

func validateClaim(c *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := validateMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	return append(errs, validateClaimSpec(&c.Spec, specPath)...)
}

func validateClaimSpec(s *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	errs := validateAccessModes(s.AccessModes, path.Child("accessModes"), "at least 1 access mode is required")
	if s.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(s.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	}
	storage := path.Child("resources").Key(string(corev1.ResourceStorage))
	if q, ok := s.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(storage, ""))
	} else if q.Sign() <= 0 {
		errs = append(errs, field.Invalid(storage, q.String(), notPositive))
	}
	for _, class := range []struct {
		name  string
		value *string
	}{{"storageClassName", s.StorageClassName}, {"volumeAttributesClassName", s.VolumeAttributesClassName}} {
		if v := ptr.Deref(class.value, ""); v != "" {
			errs = append(errs, invalidAll(path.Child(class.name), v, apivalidation.NameIsDNSSubdomain(v, false))...)
		}
	}
	if s.VolumeMode != nil {
		errs = append(errs, supported(path.Child("volumeMode"), *s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	}
	source := func(p *field.Path, group *string, kind, name string) {
		errs = append(errs, required(p.Child("name"), name)...)
		errs = append(errs, required(p.Child("kind"), kind)...)
		if g := ptr.Deref(group, ""); g != "" {
			errs = append(errs, invalidAll(p.Child("apiGroup"), g, validation.IsDNS1123Subdomain(g))...)
		} else if kind != "PersistentVolumeClaim" {
			errs = append(errs, field.Invalid(p, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
		}
	}
	if d := s.DataSource; d != nil {
		source(path.Child("dataSource"), d.APIGroup, d.Kind, d.Name)
	}
	r := s.DataSourceRef
	if r == nil {
		return errs
	}
	source(path.Child("dataSourceRef"), r.APIGroup, r.Kind, r.Name)
	namespace := ptr.Deref(r.Namespace, "")
	if namespace != "" {
		errs = append(errs, invalidAll(path.Child("dataSourceRef", "namespace"), namespace, apivalidation.ValidateNamespaceName(namespace, false))...)
	}
	switch d := s.DataSource; {
	case d == nil:
	case namespace != "":
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified"))
	case !ptr.Equal(d.APIGroup, r.APIGroup) || d.Kind != r.Kind || d.Name != r.Name:
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "must match dataSourceRef"))
	}
	return errs
}

// validateClaimUpdate: a claim's spec is for good, except that it can be bound
// to a volume once, get the class it lacks, and grow while bound.
func validateClaimUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := append(validateMetaUpdate(&c.ObjectMeta, &old.ObjectMeta), validateClaim(c)...)
	now, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName
	}
	beta, hadBeta := old.Annotations[corev1.BetaStorageClassAnnotation]
	newBeta, hasBeta := c.Annotations[corev1.BetaStorageClassAnnotation]
	class := now.StorageClassName
	if was.StorageClassName == nil && class != nil && (!hadBeta || *class == beta) {
		now.StorageClassName = nil
	}
	upgraded := hadBeta && was.StorageClassName == nil && class != nil && *class == beta && !hasBeta
	if beta != newBeta && !upgraded {
		errs = append(errs, field.Invalid(metadataPath.Child("annotations", corev1.BetaStorageClassAnnotation), newBeta, apivalidation.FieldImmutableErrorMsg))
	}
	if c.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = was.Resources.Requests[corev1.ResourceStorage]
		}
		now.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if !apiequality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(specPath,
			fmt.Sprintf("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v", diff.Diff(*was, *now))))
	}
	size, before := c.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(before) < 0 && size.Cmp(old.Status.Capacity[corev1.ResourceStorage]) <= 0 {
		errs = append(errs, field.Forbidden(specPath.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	errs = append(errs, apivalidation.ValidateImmutableField(c.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Status.CurrentVolumeAttributesClassName != nil && !ptr.Equal(c.Spec.VolumeAttributesClassName, old.Spec.VolumeAttributesClassName) {
		p := specPath.Child("volumeAttributesClassName")
		if v := c.Spec.VolumeAttributesClassName; v == nil {
			errs = append(errs, field.Forbidden(p, "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"))
		} else if *v == "" {
			errs = append(errs, field.Forbidden(p, "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil"))
		}
	}
	return errs
}

func validateClaimStatusUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := validateMetaUpdate(&c.ObjectMeta, &old.ObjectMeta)
	if c.ResourceVersion == "" {
		errs = append(errs, field.Required(field.NewPath("resourceVersion"), ""))
	}
	resizing := statusPath.Child("allocatedResources")
	for name := range c.Status.AllocatedResources {
		errs = append(errs, checkClaimResource(name, resizing)...)
	}
	states := statusPath.Child("allocatedResourceStatuses")
	for name, state := range c.Status.AllocatedResourceStatuses {
		if bad := checkClaimResource(name, states); len(bad) > 0 {
			errs = append(errs, bad...)
			continue
		}
		known := []corev1.ClaimResourceStatus{corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
			corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible, corev1.PersistentVolumeClaimNodeResizePending}
		if !slices.Contains(known, state) {
			// Upstream names the resource, not its state, as the value.
			slices.Sort(known)
			errs = append(errs, field.NotSupported(states, name, known))
		}
	}
	for _, l := range []struct {
		name string
		list corev1.ResourceList
	}{{"capacity", c.Status.Capacity}, {"allocatedResources", c.Status.AllocatedResources}} {
		for name, q := range l.list {
			if q.Sign() < 0 {
				errs = append(errs, field.Invalid(statusPath.Child(l.name).Key(string(name)), q.Value(), "must be a valid resource quantity"))
			}
		}
	}
	return errs
}

func claimWarnings(c *corev1.PersistentVolumeClaim) []string {
	var w warnings
	if _, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		w.add(metadataPath.Child("annotations").Key(corev1.BetaStorageClassAnnotation), `deprecated since v1.8; use "storageClassName" attribute instead`)
	}
	return append(w, claimSpecWarnings(&c.Spec, specPath)...)
}

// checkClaimResource wants storage, or a name with a prefix that is not
// Kubernetes' own.
func checkClaimResource(name corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := invalidAll(path, name, validation.IsQualifiedName(string(name)))
	if len(errs) == 0 && name != corev1.ResourceStorage && isNativeResource(name) {
		errs = append(errs, field.NotSupported(path, name, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	return errs
}
