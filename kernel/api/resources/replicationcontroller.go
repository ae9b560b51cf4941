package resources

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func replicationControllerKind() Kind {
	gvk := v1.SchemeGroupVersion.WithKind("ReplicationController")
	spec, status := v1.ReplicationControllerSpec{}.SwaggerDoc(), v1.ReplicationControllerStatus{}.SwaggerDoc()
	common := base{gvk: gvk, namespaced: true}
	return Kind{
		GVK: gvk, Resource: "replicationcontrollers", Singular: "replicationcontroller",
		ShortNames: []string{"rc"}, Categories: []string{"all"},
		New:     func() runtime.Object { return &v1.ReplicationController{} },
		NewList: func() runtime.Object { return &v1.ReplicationControllerList{} },
		Strategy: &rules[*v1.ReplicationController]{
			base:   common.resetting([]any{"status"}),
			orphan: true,
			prepareCreate: func(o *v1.ReplicationController) {
				o.Status = v1.ReplicationControllerStatus{}
				o.Generation = 1
				if t := o.Spec.Template; t != nil {
					dropGatedFields(&t.Spec, nil)
				}
			},
			prepareUpdate: func(o, old *v1.ReplicationController) {
				o.Status = old.Status
				if t, was := o.Spec.Template, old.Spec.Template; t != nil && was != nil {
					dropGatedFields(&t.Spec, &was.Spec)
				}
				if !apiequality.Semantic.DeepEqual(old.Spec, o.Spec) {
					o.Generation = old.Generation + 1
				}
			},
			validate: func(o *v1.ReplicationController) field.ErrorList {
				errs := validateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
				return append(errs, validateReplicationControllerSpec(&o.Spec, PodAllowances{}, specPath)...)
			},
			validateUpdate: validateReplicationControllerUpdate,
			warnCreate: func(o *v1.ReplicationController) []string {
				return append(warnPodNamePrefix(o.Name), templateWarnings(templatePath, o.Spec.Template)...)
			},
			warnUpdate: func(o, old *v1.ReplicationController) []string {
				if o.Generation == old.Generation {
					return nil
				}
				return templateWarnings(templatePath, o.Spec.Template)
			},
		},
		Status: &rules[*v1.ReplicationController]{
			base:          common.resetting([]any{"spec"}),
			prepareUpdate: func(o, old *v1.ReplicationController) { o.Spec = old.Spec },
			validateUpdate: func(o, old *v1.ReplicationController) field.ErrorList {
				errs := validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
				s := o.Status
				return append(errs, validateReplicaCounts(replicaCounts{
					replicas: s.Replicas, fullyLabeled: s.FullyLabeledReplicas, ready: s.ReadyReplicas,
					available: s.AvailableReplicas, observedGeneration: s.ObservedGeneration,
				}, statusPath)...)
			},
		},
		FieldNames: []string{"status.replicas"},
		Fields: func(obj runtime.Object) fields.Set {
			return fields.Set{"status.replicas": strconv.Itoa(int(obj.(*v1.ReplicationController).Status.Replicas))}
		},
		Columns: replicatedColumns(spec, status),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*v1.ReplicationController)
			return replicatedRow(o, o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas, o.Spec.Template, labels.FormatLabels(o.Spec.Selector)), nil
		},
		Scale: &ScaleAccess{
			Replicas:    func(obj runtime.Object) int32 { return ptr.Deref(obj.(*v1.ReplicationController).Spec.Replicas, 0) },
			SetReplicas: func(obj runtime.Object, n int32) { obj.(*v1.ReplicationController).Spec.Replicas = &n },
			Status: func(obj runtime.Object) (int32, string) {
				o := obj.(*v1.ReplicationController)
				return o.Status.Replicas, labels.Set(o.Spec.Selector).AsSelector().String()
			},
		},
	}
}

func setReplicationControllerDefaults(o *v1.ReplicationController) {
	if o.Spec.Replicas == nil {
		o.Spec.Replicas = ptr.To[int32](1)
	}
	if t := o.Spec.Template; t != nil {
		setPodTemplateDefaults(t)
		if t.Labels != nil {
			if len(o.Spec.Selector) == 0 {
				o.Spec.Selector = maps.Clone(t.Labels)
			}
			if len(o.Labels) == 0 {
				o.Labels = maps.Clone(t.Labels)
			}
		}
	}
}

func validateReplicationControllerSpec(s *v1.ReplicationControllerSpec, allow PodAllowances, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateNonnegativeField(int64(s.MinReadySeconds), path.Child("minReadySeconds"))
	selector := labels.Set(s.Selector).AsSelector()
	if selector.Empty() {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	if s.Replicas == nil {
		errs = append(errs, field.Required(path.Child("replicas"), ""))
	} else {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(*s.Replicas), path.Child("replicas"))...)
	}
	if s.Template == nil {
		return append(errs, field.Required(path.Child("template"), ""))
	}
	return append(errs, validateReplicatedTemplate(s.Template, allow, selector, "ReplicationController", path.Child("template"))...)
}

func validateReplicationControllerUpdate(o, old *v1.ReplicationController) field.ErrorList {
	errs := validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateReplicationControllerSpec(&o.Spec, AllowancesOf(old.Spec.Template), specPath)...)
	return append(errs, validateNonConvertible(o, old)...)
}

// nonConvertiblePrefix marks annotations that say that a field was read from
// another API version and means more than this version can hold.
const nonConvertiblePrefix = "non-convertible.kubernetes.io"

func validateNonConvertible(o, old *v1.ReplicationController) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(old.Annotations)) {
		_, broken, ok := strings.Cut(key, "/")
		if !strings.HasPrefix(key, nonConvertiblePrefix) || !ok || strings.Contains(broken, "/") {
			continue
		}
		if !strings.Contains(broken, "selector") {
			errs = append(errs, &field.Error{Type: field.ErrorTypeNotFound, BadValue: old.Annotations[key], Field: broken, Detail: "unknown non-convertible field"})
		} else if !apiequality.Semantic.DeepEqual(old.Spec.Selector, o.Spec.Selector) {
			errs = append(errs, field.Invalid(specPath.Child("selector"), o.Spec.Selector, "cannot update non-convertible selector"))
		}
	}
	return errs
}
