package resources

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func leaseKind() Kind {
	gvk := coordinationv1.SchemeGroupVersion.WithKind("Lease")
	spec := coordinationv1.LeaseSpec{}.SwaggerDoc()
	return Kind{
		GVK: gvk, Resource: "leases", Singular: "lease",
		New:     func() runtime.Object { return &coordinationv1.Lease{} },
		NewList: func() runtime.Object { return &coordinationv1.LeaseList{} },
		Strategy: &rules[*coordinationv1.Lease]{
			base:        base{gvk: gvk, namespaced: true, createOnUpdate: true},
			conditional: true,
			// Coordinated leader election is off by default in this release,
			// and its fields are kept only where an object has them already.
			prepareCreate: func(o *coordinationv1.Lease) { o.Spec.Strategy, o.Spec.PreferredHolder = nil, nil },
			prepareUpdate: func(o, old *coordinationv1.Lease) {
				if old.Spec.Strategy == nil {
					o.Spec.Strategy = nil
				}
				if old.Spec.PreferredHolder == nil {
					o.Spec.PreferredHolder = nil
				}
			},
			validate: func(o *coordinationv1.Lease) field.ErrorList {
				errs := apivalidation.ValidateObjectMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, metadataPath)
				return append(errs, validateLeaseSpec(&o.Spec, specPath)...)
			},
			validateUpdate: func(o, old *coordinationv1.Lease) field.ErrorList {
				errs := apivalidation.ValidateObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta, metadataPath)
				return append(errs, validateLeaseSpec(&o.Spec, specPath)...)
			},
		},
		Columns: cols(nameColumn(), stringColumn("Holder", spec["holderIdentity"]), ageColumn()),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*coordinationv1.Lease)
			return []any{o.Name, ptr.Deref(o.Spec.HolderIdentity, ""), ageCell(o.CreationTimestamp)}, nil
		},
	}
}

func validateLeaseSpec(s *coordinationv1.LeaseSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.LeaseDurationSeconds != nil && *s.LeaseDurationSeconds <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), s.LeaseDurationSeconds, "must be greater than 0"))
	}
	if s.LeaseTransitions != nil && *s.LeaseTransitions < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), s.LeaseTransitions, "must be greater than or equal to 0"))
	}
	if s.Strategy != nil {
		errs = append(errs, validateLeaseStrategy(*s.Strategy, path.Child("strategy"))...)
	}
	if ptr.Deref(s.PreferredHolder, "") != "" && ptr.Deref(s.Strategy, "") == "" {
		errs = append(errs, field.Forbidden(path.Child("preferredHolder"), "may only be specified if `strategy` is defined"))
	}
	return errs
}

// validateLeaseStrategy reports under strategy.strategy, as upstream does.
func validateLeaseStrategy(s coordinationv1.CoordinatedLeaseStrategy, path *field.Path) field.ErrorList {
	path = path.Child("strategy")
	if !strings.Contains(string(s), "/") {
		if s != coordinationv1.OldestEmulationVersion {
			return field.ErrorList{field.NotSupported(path, s, []coordinationv1.CoordinatedLeaseStrategy{coordinationv1.OldestEmulationVersion})}
		}
		return nil
	}
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(string(s)) {
		errs = append(errs, field.Invalid(path, s, msg))
	}
	return errs
}
