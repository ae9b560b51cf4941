package resources

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const (
	// HighestUserPriority is the greatest value of a priority class that is
	// not the system's.
	HighestUserPriority int32 = 1000000000
	// SystemCriticalPriority is where the system's own priorities begin.
	SystemCriticalPriority = 2 * HighestUserPriority

	systemPriorityClassPrefix = "system-"
)

// SystemPriorityClasses are the classes that exist in every cluster. The API
// server creates those that are missing when it starts. The objects are the
// caller's own.
func SystemPriorityClasses() []*schedulingv1.PriorityClass {
	class := func(name string, value int32, description string) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{
			ObjectMeta:       metav1.ObjectMeta{Name: name},
			Value:            value,
			Description:      description,
			PreemptionPolicy: ptr.To(v1.PreemptLowerPriority),
		}
	}
	return []*schedulingv1.PriorityClass{
		class("system-node-critical", SystemCriticalPriority+1000, "Used for system critical pods that must not be moved from their current node."),
		class("system-cluster-critical", SystemCriticalPriority, "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
	}
}

func priorityClassKind() Kind {
	gvk := schedulingv1.SchemeGroupVersion.WithKind("PriorityClass")
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return Kind{
		GVK: gvk, Resource: "priorityclasses", Singular: "priorityclass", ShortNames: []string{"pc"},
		New:     func() runtime.Object { return &schedulingv1.PriorityClass{} },
		NewList: func() runtime.Object { return &schedulingv1.PriorityClassList{} },
		Strategy: &rules[*schedulingv1.PriorityClass]{
			base:           base{gvk: gvk},
			prepareCreate:  func(o *schedulingv1.PriorityClass) { o.Generation = 1 },
			validate:       validatePriorityClass,
			validateUpdate: validatePriorityClassUpdate,
		},
		Columns: cols(nameColumn(), integerColumn("Value", doc["value"]),
			column("Global-Default", "boolean", "", doc["globalDefault"], 0), ageColumn(),
			stringColumn("PreemptionPolicy", doc["preemptionPolicy"])),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*schedulingv1.PriorityClass)
			return []any{o.Name, int64(o.Value), o.GlobalDefault, ageCell(o.CreationTimestamp), string(ptr.Deref(o.PreemptionPolicy, ""))}, nil
		},
	}
}

func setPriorityClassDefaults(o *schedulingv1.PriorityClass) {
	if o.PreemptionPolicy == nil {
		o.PreemptionPolicy = ptr.To(v1.PreemptLowerPriority)
	}
}

func validatePriorityClass(o *schedulingv1.PriorityClass) field.ErrorList {
	errs := validateMeta(&o.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
	if strings.HasPrefix(o.Name, systemPriorityClassPrefix) {
		if err := knownSystemPriorityClass(o); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with '"+systemPriorityClassPrefix+"' prefix are reserved for system use only. error: "+err.Error()))
		}
	} else if o.Value > HighestUserPriority {
		errs = append(errs, field.Forbidden(field.NewPath("value"), fmt.Sprintf("maximum allowed value of a user defined priority is %v", HighestUserPriority)))
	}
	if o.PreemptionPolicy != nil {
		path := field.NewPath("preemptionPolicy")
		switch *o.PreemptionPolicy {
		case v1.PreemptLowerPriority, v1.PreemptNever:
		case "":
			errs = append(errs, field.Required(path, ""))
		default:
			errs = append(errs, field.NotSupported(path, *o.PreemptionPolicy, []v1.PreemptionPolicy{v1.PreemptLowerPriority, v1.PreemptNever}))
		}
	}
	return errs
}

// knownSystemPriorityClass asks that a class with a system name be the
// system's class of that name.
func knownSystemPriorityClass(o *schedulingv1.PriorityClass) error {
	for _, known := range SystemPriorityClasses() {
		if known.Name != o.Name {
			continue
		}
		if known.Value != o.Value {
			return fmt.Errorf("value of %v PriorityClass must be %v", known.Name, known.Value)
		}
		if known.GlobalDefault != o.GlobalDefault {
			return fmt.Errorf("globalDefault of %v PriorityClass must be %v", known.Name, known.GlobalDefault)
		}
		return nil
	}
	return fmt.Errorf("%v is not a known system priority class", o.Name)
}

func validatePriorityClassUpdate(o, old *schedulingv1.PriorityClass) field.ErrorList {
	errs := validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	if o.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, apivalidation.ValidateImmutableField(o.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
}
