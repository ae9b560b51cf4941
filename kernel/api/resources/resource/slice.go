package resource

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
)

// reach says from where devices can be reached: by one of its fields.
type reach struct {
	nodeName     *string
	nodeSelector *corev1.NodeSelector
	allNodes     *bool
	emptyName    string // what is said of an empty name
}

// validate checks what is set and lists the names of the fields.
func (r reach) validate(path *field.Path) (named []string, errs field.ErrorList) {
	if name := r.nodeName; name != nil && *name == "" {
		errs = append(errs, field.Invalid(path.Child("nodeName"), *name, r.emptyName))
	} else if name != nil {
		named = append(named, "`nodeName`")
		errs = append(errs, invalid(path.Child("nodeName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
	}
	if r.nodeSelector != nil {
		named = append(named, "`nodeSelector`")
		errs = append(errs, resources.ValidateNodeSelector(r.nodeSelector, path.Child("nodeSelector"))...)
	}
	return named, errs
}

// validateTrue: a flag is true or not there.
func validateTrue(flag *bool, name string, named []string, path *field.Path) ([]string, field.ErrorList) {
	switch {
	case flag == nil:
		return named, nil
	case !*flag:
		return named, field.ErrorList{field.Invalid(path.Child(name), *flag, "must be either unset or set to true")}
	}
	return append(named, "`"+name+"`"), nil
}

func validateSlice(s, old *resourcev1.ResourceSliceSpec) field.ErrorList {
	pool := specPath.Child("pool")
	errs := validateDriver(s.Driver, specPath.Child("driver"))
	errs = append(errs, validatePool(s.Pool.Name, pool.Child("name"))...)
	if s.Pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(pool.Child("resourceSliceCount"), s.Pool.ResourceSliceCount, "must be greater than zero"))
	}
	if s.Pool.Generation < 0 {
		errs = append(errs, field.Invalid(pool.Child("generation"), s.Pool.Generation, "must be greater than or equal to zero"))
	}
	if old != nil {
		errs = append(errs, apivalidation.ValidateImmutableField(s.Pool.Name, old.Pool.Name, pool.Child("name"))...)
		errs = append(errs, apivalidation.ValidateImmutableField(s.Driver, old.Driver, specPath.Child("driver"))...)
		errs = append(errs, apivalidation.ValidateImmutableField(s.NodeName, old.NodeName, specPath.Child("nodeName"))...)
	}
	named, more := reach{s.NodeName, s.NodeSelector, s.AllNodes, "must be either unset or set to a non-empty string"}.validate(specPath)
	errs = append(errs, more...)
	if sel := s.NodeSelector; sel != nil && len(sel.NodeSelectorTerms) != 1 {
		errs = append(errs, field.Invalid(specPath.Child("nodeSelector", "nodeSelectorTerms"), sel.NodeSelectorTerms, "must have exactly one node selector term"))
	}
	for _, f := range []struct {
		name string
		flag *bool
	}{{"allNodes", s.AllNodes}, {"perDeviceNodeSelection", s.PerDeviceNodeSelection}} {
		named, more = validateTrue(f.flag, f.name, named, specPath)
		errs = append(errs, more...)
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	if len(named) == 0 {
		errs = append(errs, field.Required(specPath, one))
	} else if len(named) > 1 {
		errs = append(errs, field.Invalid(specPath, fmt.Sprintf("{%s}", strings.Join(named, ", ")), one+", but multiple fields are set"))
	}
	if s.SharedCounters != nil && s.Devices != nil {
		errs = append(errs, field.Invalid(specPath, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	errs = append(errs, set(s.Devices, mostDevices(s), specPath.Child("devices"),
		func(d resourcev1.Device) string { return d.Name },
		func(d resourcev1.Device, path *field.Path) field.ErrorList {
			return validateDevice(&d, deviceNamed(old, d.Name), ptr.Deref(s.PerDeviceNodeSelection, false), path)
		})...)
	return append(errs, set(s.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, specPath.Child("sharedCounters"),
		func(c resourcev1.CounterSet) string { return c.Name },
		func(c resourcev1.CounterSet, path *field.Path) field.ErrorList {
			return validateCounters(c.Name, "name", c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, path)
		})...)
}

// mostDevices are fewer where devices say more.
func mostDevices(s *resourcev1.ResourceSliceSpec) int {
	for _, d := range s.Devices {
		if len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 {
			return resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
		}
	}
	if usesListAttributes(s) {
		return resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	return resourcev1.ResourceSliceMaxDevices
}

func deviceNamed(s *resourcev1.ResourceSliceSpec, name string) *resourcev1.Device {
	if s != nil {
		for i := range s.Devices {
			if s.Devices[i].Name == name {
				return &s.Devices[i]
			}
		}
	}
	return nil
}

// validateCounters checks counters of a set that has a name in a field.
func validateCounters(name, in string, counters map[string]resourcev1.Counter, most int, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(path.Child(in), ""))
	} else {
		errs = append(errs, validateLabel(name, path.Child(in))...)
	}
	if len(counters) == 0 {
		return append(errs, field.Required(path.Child("counters"), ""))
	}
	return append(errs, byKey(counters, most, validation.DNS1123LabelMaxLength, path.Child("counters"), validateLabel, nil)...)
}

func validateDevice(d, old *resourcev1.Device, ownNodes bool, path *field.Path) field.ErrorList {
	errs := validateLabel(d.Name, path.Child("name"))
	if n, most := len(d.Attributes)+len(d.Capacity), resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice; n > most {
		errs = append(errs, field.Invalid(path, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", most)))
	}
	values := 0
	for _, a := range d.Attributes {
		values += max(1, len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues))
	}
	if most := resourcev1.ResourceSliceMaxAttributeValuesPerDevice; values > most {
		errs = append(errs, field.Invalid(path, values, fmt.Sprintf("the total number of attribute values must not exceed %d", most)))
	}
	const shown = resourcev1.DeviceMaxDomainLength + 1 + resourcev1.DeviceMaxIDLength
	errs = append(errs, byKey(d.Attributes, -1, shown, path.Child("attributes"), validateQualified, validateAttribute)...)
	shared := ptr.Deref(d.AllowMultipleAllocations, false)
	errs = append(errs, byKey(d.Capacity, -1, shown, path.Child("capacity"), validateQualified,
		func(c resourcev1.DeviceCapacity, path *field.Path) field.ErrorList {
			return validateCapacity(&c, shared, path)
		})...)
	if old == nil || !apiequality.Semantic.DeepEqual(old.Taints, d.Taints) {
		errs = append(errs, list(d.Taints, resourcev1.DeviceTaintsMaxLength, path.Child("taints"), validateTaint)...)
	}
	errs = append(errs, set(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, path.Child("consumesCounters"),
		func(c resourcev1.DeviceCounterConsumption) string { return c.CounterSet },
		func(c resourcev1.DeviceCounterConsumption, path *field.Path) field.ErrorList {
			return validateCounters(c.CounterSet, "counterSet", c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption, path)
		})...)
	if ownNodes {
		named, more := reach{d.NodeName, d.NodeSelector, d.AllNodes, "must not be empty"}.validate(path)
		errs = append(errs, more...)
		named, more = validateTrue(d.AllNodes, "allNodes", named, path)
		errs = append(errs, more...)
		const one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
		if len(named) == 0 {
			errs = append(errs, field.Required(path, one))
		} else if len(named) > 1 {
			errs = append(errs, field.Invalid(path, fmt.Sprintf("{%s}", strings.Join(named, ", ")), one))
		}
	} else if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
		errs = append(errs, field.Invalid(path, nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"))
	}
	return append(errs, validateBinding(d.BindingConditions, d.BindingFailureConditions, path)...)
}

func validateTaint(t resourcev1.DeviceTaint, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelName(t.Key, path.Child("key"))
	if t.Value != "" {
		errs = append(errs, validateLabelValue(t.Value, path.Child("value"))...)
	}
	if t.Effect == "" {
		return append(errs, field.Required(path.Child("effect"), ""))
	}
	return append(errs, validateEffect(t.Effect, path.Child("effect"))...)
}
