package resources

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const (
	// minNodeUpdateSeconds is how often a driver's limits may be read at most.
	minNodeUpdateSeconds = 10
	minTokenSeconds      = 600

	tokensInSecretsWarning = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
)

func csiDriverKind() Kind {
	gvk := storagev1.SchemeGroupVersion.WithKind("CSIDriver")
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return Kind{
		GVK: gvk, Resource: "csidrivers", Singular: "csidriver",
		New:     func() runtime.Object { return &storagev1.CSIDriver{} },
		NewList: func() runtime.Object { return &storagev1.CSIDriverList{} },
		Strategy: &rules[*storagev1.CSIDriver]{
			base: base{gvk: gvk}, conditional: true,
			// Its gate, VolumeLimitScaling, is off.
			prepareCreate: func(d *storagev1.CSIDriver) { d.Spec.PreventPodSchedulingIfMissing = nil },
			prepareUpdate: func(d, old *storagev1.CSIDriver) {
				if old.Spec.PreventPodSchedulingIfMissing == nil {
					d.Spec.PreventPodSchedulingIfMissing = nil
				}
				if !apiequality.Semantic.DeepEqual(old.Spec, d.Spec) {
					d.Generation = old.Generation + 1
				}
			},
			validate: func(d *storagev1.CSIDriver) field.ErrorList {
				return append(validateMeta(&d.ObjectMeta, false, apivalidation.NameIsDNSSubdomain), validateCSIDriverSpec(&d.Spec)...)
			},
			validateUpdate: func(d, old *storagev1.CSIDriver) field.ErrorList {
				errs := append(validateMetaUpdate(&d.ObjectMeta, &old.ObjectMeta), validateCSIDriverSpec(&d.Spec)...)
				errs = append(errs, apivalidation.ValidateImmutableField(d.Spec.AttachRequired, old.Spec.AttachRequired, specPath.Child("attachedRequired"))...)
				return append(errs, apivalidation.ValidateImmutableField(d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, specPath.Child("volumeLifecycleModes"))...)
			},
			warnCreate: func(d *storagev1.CSIDriver) []string { return csiDriverWarnings(d, nil) },
			warnUpdate: func(d, old *storagev1.CSIDriver) []string { return csiDriverWarnings(d, old.Spec.TokenRequests) },
		},
		Columns: cols(nameColumn(), column("AttachRequired", "boolean", "", doc["attachRequired"], 0), column("PodInfoOnMount", "boolean", "", doc["podInfoOnMount"], 0),
			column("StorageCapacity", "boolean", "", doc["storageCapacity"], 0), stringColumn("TokenRequests", doc["tokenRequests"]),
			column("RequiresRepublish", "boolean", "", doc["requiresRepublish"], 0), stringColumn("Modes", doc["volumeLifecycleModes"]), ageColumn()),
		Row: row(csiDriverCells),
	}
}

func setCSIDriverDefaults(d *storagev1.CSIDriver) {
	s := &d.Spec
	unless := func(to **bool, value bool) {
		if *to == nil {
			*to = &value
		}
	}
	unless(&s.AttachRequired, true)
	unless(&s.PodInfoOnMount, false)
	unless(&s.StorageCapacity, false)
	unless(&s.RequiresRepublish, false)
	unless(&s.SELinuxMount, false)
	if s.FSGroupPolicy == nil {
		s.FSGroupPolicy = ptr.To(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

func validateCSIDriverSpec(s *storagev1.CSIDriverSpec) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name  string
		value *bool
	}{{"attachedRequired", s.AttachRequired}, {"podInfoOnMount", s.PodInfoOnMount}, {"storageCapacity", s.StorageCapacity}, {"seLinuxMount", s.SELinuxMount}} {
		if f.value == nil {
			errs = append(errs, field.Required(specPath.Child(f.name), ""))
		}
	}
	if s.FSGroupPolicy != nil {
		errs = append(errs, supported(specPath.Child("fsGroupPolicy"), *s.FSGroupPolicy,
			storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy)...)
	}
	audiences := sets.Set[string]{}
	for i, r := range s.TokenRequests {
		at := specPath.Child("tokenRequests").Index(i)
		if audiences.Has(r.Audience) {
			errs = append(errs, field.Duplicate(at.Child("audience"), r.Audience))
			continue
		}
		audiences.Insert(r.Audience)
		switch seconds := ptr.Deref(r.ExpirationSeconds, minTokenSeconds); {
		case seconds < minTokenSeconds:
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes"))
		case seconds > 1<<32:
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	for _, mode := range s.VolumeLifecycleModes {
		if mode != storagev1.VolumeLifecyclePersistent && mode != storagev1.VolumeLifecycleEphemeral {
			errs = append(errs, field.NotSupported(specPath.Child("volumeLifecycleModes"), mode,
				[]storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}))
		}
	}
	if n := s.NodeAllocatableUpdatePeriodSeconds; n != nil && *n < minNodeUpdateSeconds {
		errs = append(errs, field.Invalid(specPath.Child("nodeAllocatableUpdatePeriodSeconds"), *n, "must be greater than or equal to 10 seconds"))
	}
	if s.ServiceAccountTokenInSecrets != nil && len(s.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(specPath.Child("serviceAccountTokenInSecrets"), *s.ServiceAccountTokenInSecrets,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	return errs
}

func csiDriverWarnings(d *storagev1.CSIDriver, before []storagev1.TokenRequest) []string {
	s := &d.Spec
	if len(s.TokenRequests) == 0 || s.ServiceAccountTokenInSecrets != nil || apiequality.Semantic.DeepEqual(before, s.TokenRequests) {
		return nil
	}
	return []string{tokensInSecretsWarning}
}

func csiDriverCells(d *storagev1.CSIDriver) []any {
	s := &d.Spec
	modes, audiences := make([]string, len(s.VolumeLifecycleModes)), make([]string, len(s.TokenRequests))
	for i, m := range s.VolumeLifecycleModes {
		modes[i] = string(m)
	}
	for i, r := range s.TokenRequests {
		audiences[i] = r.Audience
	}
	mode, tokens := strings.Join(modes, ","), "<unset>"
	if mode == "" {
		mode = "<none>"
	}
	if s.TokenRequests != nil {
		tokens = strings.Join(audiences, ",")
	}
	return []any{
		d.Name, ptr.Deref(s.AttachRequired, true), ptr.Deref(s.PodInfoOnMount, false), ptr.Deref(s.StorageCapacity, false),
		tokens, ptr.Deref(s.RequiresRepublish, false), mode, ageCell(d.CreationTimestamp),
	}
}
