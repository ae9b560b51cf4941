package resources

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func limitRangeKind() Kind {
	gvk := v1.SchemeGroupVersion.WithKind("LimitRange")
	return Kind{
		GVK: gvk, Resource: "limitranges", Singular: "limitrange", ShortNames: []string{"limits"},
		New:     func() runtime.Object { return &v1.LimitRange{} },
		NewList: func() runtime.Object { return &v1.LimitRangeList{} },
		Strategy: &rules[*v1.LimitRange]{
			base: base{gvk: gvk, namespaced: true, createOnUpdate: true},
			prepareCreate: func(o *v1.LimitRange) {
				if o.Name == "" {
					o.Name = string(uuid.NewUUID())
				}
			},
			validate:       validateLimitRange,
			validateUpdate: func(o, _ *v1.LimitRange) field.ErrorList { return validateLimitRange(o) },
		},
		Columns: createdColumns(),
		Row:     func(obj runtime.Object) ([]any, error) { return createdRow(obj.(*v1.LimitRange)), nil },
	}
}

func setLimitRangeDefaults(o *v1.LimitRange) {
	for i := range o.Spec.Limits {
		item := &o.Spec.Limits[i]
		for _, list := range []v1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
			roundUp(list)
		}
		if item.Type == v1.LimitTypeContainer {
			setContainerLimitDefaults(item)
		}
	}
}

// setContainerLimitDefaults: a default limit is the maximum where it is not
// given, and a default request is the default limit, or else the minimum.
func setContainerLimitDefaults(item *v1.LimitRangeItem) {
	fill := func(into *v1.ResourceList, from v1.ResourceList) {
		if *into == nil {
			*into = v1.ResourceList{}
		}
		for name, q := range from {
			if _, given := (*into)[name]; !given {
				(*into)[name] = q.DeepCopy()
			}
		}
	}
	fill(&item.Default, item.Max)
	fill(&item.DefaultRequest, item.Default)
	fill(&item.DefaultRequest, item.Min)
}

func validateLimitRange(o *v1.LimitRange) field.ErrorList {
	errs := validateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	types := sets.New[v1.LimitType]()
	for i := range o.Spec.Limits {
		item, path := &o.Spec.Limits[i], specPath.Child("limits").Index(i)
		errs = append(errs, validateLimitType(item.Type, path.Child("type"))...)
		if types.Has(item.Type) {
			errs = append(errs, field.Duplicate(path.Child("type"), item.Type))
		}
		types.Insert(item.Type)
		errs = append(errs, validateLimitRangeItem(item, path)...)
	}
	return errs
}

func validateLimitType(t v1.LimitType, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(string(t)) {
		errs = append(errs, field.Invalid(path, t, msg))
	}
	if len(errs) > 0 || strings.Contains(string(t), "/") {
		return errs
	}
	switch t {
	case v1.LimitTypePod, v1.LimitTypeContainer, v1.LimitTypePersistentVolumeClaim:
		return nil
	}
	return field.ErrorList{field.Invalid(path, t, "must be a standard limit type or fully qualified")}
}

func validateLimitRangeItem(item *v1.LimitRangeItem, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := checkResourceName
	if item.Type == v1.LimitTypePod || item.Type == v1.LimitTypeContainer {
		check = checkContainerResourceName
	}
	keys := sets.New[v1.ResourceName]()
	take := func(list v1.ResourceList, name string) {
		for _, key := range slices.Sorted(maps.Keys(list)) {
			errs = append(errs, check(key, path.Child(name).Key(string(key)))...)
			keys.Insert(key)
		}
	}
	defaults, defaultRequests := item.Default, item.DefaultRequest
	take(item.Max, "max")
	take(item.Min, "min")
	if item.Type == v1.LimitTypePod {
		for name, list := range map[string]v1.ResourceList{"default": defaults, "defaultRequest": defaultRequests} {
			if len(list) > 0 {
				errs = append(errs, field.Forbidden(path.Child(name), "may not be specified when `type` is 'Pod'"))
			}
		}
		defaults, defaultRequests = nil, nil
	}
	take(defaults, "default")
	take(defaultRequests, "defaultRequest")
	if item.Type == v1.LimitTypePersistentVolumeClaim {
		_, min := item.Min[v1.ResourceStorage]
		_, max := item.Max[v1.ResourceStorage]
		if !min && !max {
			errs = append(errs, field.Required(path.Child("limits"), "either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	take(item.MaxLimitRequestRatio, "maxLimitRequestRatio")
	for _, key := range sets.List(keys) {
		l := limitValues{
			min: quantityOf(item.Min, key), max: quantityOf(item.Max, key),
			limit: quantityOf(defaults, key), request: quantityOf(defaultRequests, key),
			ratio: quantityOf(item.MaxLimitRequestRatio, key),
		}
		errs = append(errs, l.validate(key, path)...)
	}
	return errs
}

// limitValues is what a limit range says about one resource; nil where it says
// nothing.
type limitValues struct{ min, max, limit, request, ratio *resource.Quantity }

func quantityOf(list v1.ResourceList, key v1.ResourceName) *resource.Quantity {
	if q, ok := list[key]; ok {
		return &q
	}
	return nil
}

func (l limitValues) validate(key v1.ResourceName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	// ordered reports at name, with value, that low is above high.
	ordered := func(low, high *resource.Quantity, lowName, highName, name string, value *resource.Quantity) {
		if low != nil && high != nil && low.Cmp(*high) > 0 {
			errs = append(errs, field.Invalid(path.Child(name).Key(string(key)), *value,
				fmt.Sprintf("%s value %s is greater than %s value %s", lowName, low, highName, high)))
		}
	}
	ordered(l.min, l.max, "min", "max", "min", l.min)
	ordered(l.min, l.request, "min", "default request", "defaultRequest", l.request)
	ordered(l.request, l.max, "default request", "max", "defaultRequest", l.request)
	ordered(l.request, l.limit, "default request", "default limit", "defaultRequest", l.request)
	ordered(l.min, l.limit, "min", "default", "default", l.min)
	ordered(l.limit, l.max, "default", "max", "default", l.max)
	if l.ratio != nil {
		errs = append(errs, l.validateRatio(path.Child("maxLimitRequestRatio").Key(string(key)))...)
	}
	if !overcommitAllowed(key) && l.limit != nil && l.request != nil && l.limit.Cmp(*l.request) != 0 {
		errs = append(errs, field.Invalid(path.Child("defaultRequest").Key(string(key)), *l.request,
			fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", l.limit, l.request, key)))
	}
	return errs
}

// validateRatio: a limit may be at most max and a request at least min, so
// that a greater ratio than max/min could never be reached.
func (l limitValues) validateRatio(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if l.ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		errs = append(errs, field.Invalid(path, *l.ratio, fmt.Sprintf("ratio %s is less than 1", l.ratio)))
	}
	if l.min == nil || l.max == nil {
		return errs
	}
	ratio, min, max := float64(l.ratio.Value()), l.min.Value(), l.max.Value()
	if l.ratio.Value() < resource.MaxMilliValue && min < resource.MaxMilliValue && max < resource.MaxMilliValue {
		ratio, min, max = float64(l.ratio.MilliValue())/1000, l.min.MilliValue(), l.max.MilliValue()
	}
	if limit := float64(max) / float64(min); ratio > limit {
		errs = append(errs, field.Invalid(path, *l.ratio, fmt.Sprintf("ratio %s is greater than max/min = %f", l.ratio, limit)))
	}
	return errs
}
