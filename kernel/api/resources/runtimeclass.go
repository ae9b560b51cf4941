package resources

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func runtimeClassKind() Kind {
	gvk := nodev1.SchemeGroupVersion.WithKind("RuntimeClass")
	return Kind{
		GVK: gvk, Resource: "runtimeclasses", Singular: "runtimeclass",
		New:     func() runtime.Object { return &nodev1.RuntimeClass{} },
		NewList: func() runtime.Object { return &nodev1.RuntimeClassList{} },
		Strategy: &rules[*nodev1.RuntimeClass]{
			base:        base{gvk: gvk, createOnUpdate: true},
			conditional: true,
			validate:    validateRuntimeClass,
			validateUpdate: func(o, old *nodev1.RuntimeClass) field.ErrorList {
				errs := validateRuntimeClass(o)
				errs = append(errs, apivalidation.ValidateObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta, metadataPath)...)
				return append(errs, apivalidation.ValidateImmutableField(o.Handler, old.Handler, field.NewPath("handler"))...)
			},
			warnCreate: warnRuntimeClass,
			warnUpdate: func(o, _ *nodev1.RuntimeClass) []string { return warnRuntimeClass(o) },
		},
		Columns: cols(nameColumn(), stringColumn("Handler", ""), ageColumn()),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*nodev1.RuntimeClass)
			return []any{o.Name, o.Handler, ageCell(o.CreationTimestamp)}, nil
		},
	}
}

func setRuntimeClassDefaults(o *nodev1.RuntimeClass) {
	if o.Overhead != nil {
		roundUp(o.Overhead.PodFixed)
	}
}

func validateRuntimeClass(o *nodev1.RuntimeClass) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&o.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, metadataPath)
	if o.Handler == "" {
		errs = append(errs, field.Required(field.NewPath("handler"), ""))
	} else {
		for _, msg := range apivalidation.NameIsDNSLabel(o.Handler, false) {
			errs = append(errs, field.Invalid(field.NewPath("handler"), o.Handler, msg))
		}
	}
	if o.Overhead != nil {
		errs = append(errs, validateOverhead(o.Overhead.PodFixed, field.NewPath("overhead"))...)
	}
	if s := o.Scheduling; s != nil {
		path := field.NewPath("scheduling")
		errs = append(errs, metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
		errs = append(errs, validateTolerations(s.Tolerations, false, path.Child("tolerations"))...)
		errs = append(errs, uniqueTolerations(s.Tolerations, path.Child("tolerations"))...)
	}
	return errs
}

// validateOverhead holds a pod's fixed overhead to the rules of a container's
// limits.
func validateOverhead(list v1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	huge, compute := false, false
	for _, name := range slices.Sorted(maps.Keys(list)) {
		p, q := path.Child("limits").Key(string(name)), list[name]
		errs = append(errs, checkContainerResourceName(name, p)...)
		errs = append(errs, checkQuantity(name, q, p)...)
		if isHugePage(name) {
			huge = true
			if !wholePages(name, q) {
				errs = append(errs, field.Invalid(p, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name)))
			}
		}
		compute = compute || name == v1.ResourceCPU || name == v1.ResourceMemory
	}
	if huge && !compute {
		errs = append(errs, field.Forbidden(path, "HugePages require cpu or memory"))
	}
	return errs
}

// wholePages says whether q is a multiple of the page size in the name.
func wholePages(name v1.ResourceName, q resource.Quantity) bool {
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), v1.ResourceHugePagesPrefix))
	if err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 {
		return false
	}
	return q.Value()%size.Value() == 0
}

func uniqueTolerations(tolerations []v1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[v1.Toleration]bool{}
	for i, t := range tolerations {
		key := v1.Toleration{Key: t.Key, Operator: t.Operator, Value: t.Value, Effect: t.Effect}
		if seen[key] {
			errs = append(errs, field.Duplicate(path.Index(i), t))
		}
		seen[key] = true
	}
	return errs
}

// deprecatedNodeLabels are labels that a node selector should not name any
// more, and what to say of them.
var deprecatedNodeLabels = map[string]string{
	v1.LabelFailureDomainBetaRegion:                 `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	v1.LabelFailureDomainBetaZone:                   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	v1.LabelInstanceType:                            `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"app.kubernetes.io/created-by":                  `deprecated since v1.9`,
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
	"scheduler.alpha.kubernetes.io/preferAvoidPods": `deprecated since v1.22; use Taints and Tolerations instead`,
}

func warnRuntimeClass(o *nodev1.RuntimeClass) []string {
	if o.Scheduling == nil {
		return nil
	}
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(o.Scheduling.NodeSelector)) {
		if msg, ok := deprecatedNodeLabels[key]; ok {
			warnings = append(warnings, "scheduling.nodeSelector: "+msg)
		}
	}
	return warnings
}
