package resources

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func resourceQuotaKind() Kind {
	gvk := v1.SchemeGroupVersion.WithKind("ResourceQuota")
	common := base{gvk: gvk, namespaced: true}
	return Kind{
		GVK: gvk, Resource: "resourcequotas", Singular: "resourcequota", ShortNames: []string{"quota"},
		New:     func() runtime.Object { return &v1.ResourceQuota{} },
		NewList: func() runtime.Object { return &v1.ResourceQuotaList{} },
		Strategy: &rules[*v1.ResourceQuota]{
			base:          common.resetting([]any{"status"}),
			prepareCreate: func(o *v1.ResourceQuota) { o.Status = v1.ResourceQuotaStatus{} },
			prepareUpdate: func(o, old *v1.ResourceQuota) { o.Status = old.Status },
			validate: func(o *v1.ResourceQuota) field.ErrorList {
				errs := validateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
				errs = append(errs, validateQuotaSpec(&o.Spec, specPath)...)
				return append(errs, validateQuotaStatus(&o.Status, statusPath)...)
			},
			validateUpdate: validateQuotaUpdate,
			warnCreate:     warnQuota,
		},
		Status: &rules[*v1.ResourceQuota]{
			base:          common.resetting([]any{"spec"}),
			prepareUpdate: func(o, old *v1.ResourceQuota) { o.Spec = old.Spec },
			validateUpdate: func(o, old *v1.ResourceQuota) field.ErrorList {
				errs := validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
				if o.ResourceVersion == "" {
					errs = append(errs, field.Required(field.NewPath("resourceVersion"), ""))
				}
				return append(errs, validateQuotaStatus(&o.Status, statusPath)...)
			},
		},
		Columns: cols(nameColumn(),
			stringColumn("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
			stringColumn("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
			ageColumn()),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*v1.ResourceQuota)
			var requests, limits []string
			for _, name := range slices.Sorted(maps.Keys(o.Status.Hard)) {
				used, hard := o.Status.Used[name], o.Status.Hard[name]
				cell := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
				if strings.HasPrefix(string(name), "limits.") {
					limits = append(limits, cell)
				} else {
					requests = append(requests, cell)
				}
			}
			return []any{o.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), ageCell(o.CreationTimestamp)}, nil
		},
	}
}

func setResourceQuotaDefaults(o *v1.ResourceQuota) {
	roundUp(o.Spec.Hard)
	roundUp(o.Status.Hard)
	roundUp(o.Status.Used)
}

func validateQuantities(list v1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		errs = append(errs, checkQuotaResourceName(name, path.Key(string(name)))...)
		errs = append(errs, checkQuantity(name, list[name], path.Key(string(name)))...)
	}
	return errs
}

func validateQuotaStatus(s *v1.ResourceQuotaStatus, path *field.Path) field.ErrorList {
	return append(validateQuantities(s.Hard, path.Child("hard")), validateQuantities(s.Used, path.Child("used"))...)
}

func validateQuotaSpec(s *v1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	errs := validateQuantities(s.Hard, path.Child("hard"))
	if len(s.Scopes) > 0 {
		p := path.Child("scopes")
		for _, scope := range s.Scopes {
			errs = append(errs, validateQuotaScope(scope, s.Hard, p, s.Scopes, p, s.Scopes)...)
		}
		errs = append(errs, validateScopePairs(s.Scopes, p, s.Scopes)...)
	}
	if s.ScopeSelector != nil {
		errs = append(errs, validateScopeSelector(s, path.Child("scopeSelector", "matchExpressions"))...)
	}
	return errs
}

// validateQuotaScope reports an unknown scope at namePath and one that does
// not go with a limited resource at path, each with the value to be shown.
func validateQuotaScope(scope v1.ResourceQuotaScope, hard v1.ResourceList, namePath *field.Path, nameValue any, path *field.Path, value any) field.ErrorList {
	var errs field.ErrorList
	switch scope {
	case v1.ResourceQuotaScopeTerminating, v1.ResourceQuotaScopeNotTerminating, v1.ResourceQuotaScopeBestEffort,
		v1.ResourceQuotaScopeNotBestEffort, v1.ResourceQuotaScopePriorityClass, v1.ResourceQuotaScopeVolumeAttributesClass,
		v1.ResourceQuotaScopeCrossNamespacePodAffinity:
	default:
		errs = append(errs, field.Invalid(namePath, nameValue, "unsupported scope"))
	}
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		if isQuotaResource(name) && !scopeCovers(scope, name) {
			errs = append(errs, field.Invalid(path, value, "unsupported scope applied to resource"))
		}
	}
	return errs
}

func scopeCovers(scope v1.ResourceQuotaScope, name v1.ResourceName) bool {
	switch scope {
	case v1.ResourceQuotaScopeTerminating, v1.ResourceQuotaScopeNotTerminating, v1.ResourceQuotaScopeNotBestEffort,
		v1.ResourceQuotaScopePriorityClass, v1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return name == v1.ResourcePods || slices.Contains(podComputeResources, name)
	case v1.ResourceQuotaScopeBestEffort:
		return name == v1.ResourcePods
	case v1.ResourceQuotaScopeVolumeAttributesClass:
		return name == v1.ResourcePersistentVolumeClaims || name == v1.ResourceRequestsStorage
	}
	return true
}

func validateScopePairs(scopes []v1.ResourceQuotaScope, path *field.Path, value any) field.ErrorList {
	var errs field.ErrorList
	set := sets.New(scopes...)
	for _, pair := range [][2]v1.ResourceQuotaScope{
		{v1.ResourceQuotaScopeBestEffort, v1.ResourceQuotaScopeNotBestEffort},
		{v1.ResourceQuotaScopeTerminating, v1.ResourceQuotaScopeNotTerminating},
	} {
		if set.HasAll(pair[0], pair[1]) {
			errs = append(errs, field.Invalid(path, value, "conflicting scopes"))
		}
	}
	return errs
}

func validateScopeSelector(s *v1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var scopes []v1.ResourceQuotaScope
	for _, req := range s.ScopeSelector.MatchExpressions {
		errs = append(errs, validateQuotaScope(req.ScopeName, s.Hard, path.Child("scopeName"), req.ScopeName, path, s.ScopeSelector)...)
		switch req.ScopeName {
		case v1.ResourceQuotaScopeBestEffort, v1.ResourceQuotaScopeNotBestEffort, v1.ResourceQuotaScopeTerminating,
			v1.ResourceQuotaScopeNotTerminating, v1.ResourceQuotaScopeCrossNamespacePodAffinity:
			if req.Operator != v1.ScopeSelectorOpExists {
				errs = append(errs, field.Invalid(path.Child("operator"), req.Operator,
					"must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
			}
		}
		switch req.Operator {
		case v1.ScopeSelectorOpIn, v1.ScopeSelectorOpNotIn:
			if len(req.Values) == 0 {
				errs = append(errs, field.Required(path.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
		case v1.ScopeSelectorOpExists, v1.ScopeSelectorOpDoesNotExist:
			if len(req.Values) != 0 {
				errs = append(errs, field.Invalid(path.Child("values"), req.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(path.Child("operator"), req.Operator, "not a valid selector operator"))
		}
		scopes = append(scopes, req.ScopeName)
	}
	return append(errs, validateScopePairs(scopes, path, s.Scopes)...)
}

func validateQuotaUpdate(o, old *v1.ResourceQuota) field.ErrorList {
	errs := validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateQuotaSpec(&o.Spec, specPath)...)
	if !sets.New(o.Spec.Scopes...).Equal(sets.New(old.Spec.Scopes...)) {
		errs = append(errs, field.Invalid(specPath.Child("scopes"), o.Spec.Scopes, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}

// warnQuota says where more is requested than may be used.
func warnQuota(o *v1.ResourceQuota) []string {
	var warnings []string
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceStorage, v1.ResourceEphemeralStorage} {
		requestName := "requests." + name
		request, asked := o.Spec.Hard[requestName]
		if !asked && (name == v1.ResourceCPU || name == v1.ResourceMemory) {
			if request, asked = o.Spec.Hard[name]; asked {
				requestName = name
			}
		}
		limit, limited := o.Spec.Hard["limits."+name]
		if asked && limited && request.Cmp(limit) > 0 {
			warnings = append(warnings, fmt.Sprintf("ResourceQuota %s (%s) should be less than %s (%s)",
				requestName, request.String(), "limits."+name, limit.String()))
		}
	}
	return warnings
}
