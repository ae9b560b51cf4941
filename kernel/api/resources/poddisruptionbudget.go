package resources

import (
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func podDisruptionBudgetKind() Kind {
	gvk := policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")
	common := base{gvk: gvk, namespaced: true}
	return Kind{
		GVK: gvk, Resource: "poddisruptionbudgets", Singular: "poddisruptionbudget", ShortNames: []string{"pdb"},
		New:     func() runtime.Object { return &policyv1.PodDisruptionBudget{} },
		NewList: func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} },
		Strategy: &rules[*policyv1.PodDisruptionBudget]{
			base:        common.resetting([]any{"status"}),
			conditional: true,
			prepareCreate: func(o *policyv1.PodDisruptionBudget) {
				o.Status = policyv1.PodDisruptionBudgetStatus{}
				o.Generation = 1
			},
			prepareUpdate: func(o, old *policyv1.PodDisruptionBudget) {
				o.Status = old.Status
				if !apiequality.Semantic.DeepEqual(old.Spec, o.Spec) {
					o.Generation = old.Generation + 1
				}
			},
			validate: func(o *policyv1.PodDisruptionBudget) field.ErrorList {
				return validateDisruptionBudgetSpec(&o.Spec, false, specPath)
			},
			validateUpdate: func(o, old *policyv1.PodDisruptionBudget) field.ErrorList {
				return validateDisruptionBudgetSpec(&o.Spec, hasInvalidSelector(old), specPath)
			},
		},
		Status: &rules[*policyv1.PodDisruptionBudget]{
			base:           common.resetting([]any{"spec"}),
			conditional:    true,
			prepareUpdate:  func(o, old *policyv1.PodDisruptionBudget) { o.Spec = old.Spec },
			validateUpdate: func(o, _ *policyv1.PodDisruptionBudget) field.ErrorList { return validateDisruptionStatus(&o.Status) },
		},
		Columns: cols(nameColumn(),
			stringColumn("Min Available", "The minimum number of pods that must be available."),
			stringColumn("Max Unavailable", "The maximum number of pods that may be unavailable."),
			integerColumn("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."), ageColumn()),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*policyv1.PodDisruptionBudget)
			cell := func(v *intstr.IntOrString) string {
				if v == nil {
					return "N/A"
				}
				return v.String()
			}
			return []any{o.Name, cell(o.Spec.MinAvailable), cell(o.Spec.MaxUnavailable),
				int64(o.Status.DisruptionsAllowed), ageCell(o.CreationTimestamp)}, nil
		},
	}
}

// hasInvalidSelector: what was stored before it was forbidden may stay.
func hasInvalidSelector(o *policyv1.PodDisruptionBudget) bool {
	return len(metav1validation.ValidateLabelSelector(o.Spec.Selector, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
}

func validateDisruptionBudgetSpec(s *policyv1.PodDisruptionBudgetSpec, allowInvalidSelector bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path, *s, "minAvailable and maxUnavailable cannot be both set"))
	}
	amount := func(v *intstr.IntOrString, path *field.Path) {
		if v != nil {
			errs = append(errs, validateIntOrPercent(*v, path)...)
			errs = append(errs, validateAtMost100Percent(*v, path)...)
		}
	}
	amount(s.MinAvailable, path.Child("minAvailable"))
	amount(s.MaxUnavailable, path.Child("maxUnavailable"))
	errs = append(errs, metav1validation.ValidateLabelSelector(s.Selector,
		metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: allowInvalidSelector}, path.Child("selector"))...)
	if p := s.UnhealthyPodEvictionPolicy; p != nil && *p != policyv1.IfHealthyBudget && *p != policyv1.AlwaysAllow {
		errs = append(errs, field.NotSupported(path.Child("unhealthyPodEvictionPolicy"), *p,
			[]policyv1.UnhealthyPodEvictionPolicyType{policyv1.AlwaysAllow, policyv1.IfHealthyBudget}))
	}
	return errs
}

func validateDisruptionStatus(s *policyv1.PodDisruptionBudgetStatus) field.ErrorList {
	errs := metav1validation.ValidateConditions(s.Conditions, statusPath.Child("conditions"))
	for _, c := range []struct {
		name string
		n    int32
	}{
		{"disruptionsAllowed", s.DisruptionsAllowed}, {"currentHealthy", s.CurrentHealthy},
		{"desiredHealthy", s.DesiredHealthy}, {"expectedPods", s.ExpectedPods},
	} {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(c.n), statusPath.Child(c.name))...)
	}
	return errs
}
