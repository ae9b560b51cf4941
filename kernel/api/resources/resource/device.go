package resource

import (
	"fmt"
	"regexp"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// mostOptions bounds the values that a policy lists.
const mostOptions = 10

// version is of semver.org 2.0.0, as upstream matches it.
var version = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
	`(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)

// validateAttribute: exactly one value, or one list of values.
func validateAttribute(a resourcev1.DeviceAttribute, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	n := 0
	count := func(is bool) bool {
		if is {
			n++
		}
		return is
	}
	count(a.BoolValue != nil)
	count(a.IntValue != nil)
	if count(a.StringValue != nil) {
		errs = append(errs, validateValue(*a.StringValue, path.Child("string"))...)
	}
	if count(a.VersionValue != nil) {
		errs = append(errs, validateVersion(*a.VersionValue, path.Child("version"))...)
	}
	const empty = "must not be empty if specified"
	if count(a.BoolValues != nil) && len(a.BoolValues) == 0 {
		errs = append(errs, field.Invalid(path.Child("bools"), a.BoolValues, empty))
	}
	if count(a.IntValues != nil) && len(a.IntValues) == 0 {
		errs = append(errs, field.Invalid(path.Child("ints"), a.IntValues, empty))
	}
	if count(a.StringValues != nil) && len(a.StringValues) == 0 {
		errs = append(errs, field.Invalid(path.Child("strings"), a.StringValues, empty))
	}
	errs = append(errs, list(a.StringValues, -1, path.Child("strings"), validateValue)...)
	if count(a.VersionValues != nil) && len(a.VersionValues) == 0 {
		errs = append(errs, field.Invalid(path.Child("versions"), a.VersionValues, empty))
	}
	errs = append(errs, list(a.VersionValues, -1, path.Child("versions"), validateVersion)...)
	const one = "exactly one value must be specified"
	switch n {
	case 0:
		errs = append(errs, field.Invalid(path, "", one))
	case 1:
	default:
		errs = append(errs, field.Invalid(path, a, one))
	}
	return errs
}

func validateValue(s string, path *field.Path) field.ErrorList {
	if len(s) > resourcev1.DeviceAttributeMaxValueLength {
		return field.ErrorList{field.TooLong(path, "", resourcev1.DeviceAttributeMaxValueLength)}
	}
	return nil
}

func validateVersion(s string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !version.MatchString(s) {
		errs = append(errs, field.Invalid(path, s, "must be a string compatible with semver.org spec 2.0.0"))
	}
	return append(errs, validateValue(s, path)...)
}

// validateCapacity: only a device that several claims can have a part of says how
// parts are asked for.
func validateCapacity(c *resourcev1.DeviceCapacity, shared bool, path *field.Path) field.ErrorList {
	p, at := c.RequestPolicy, path.Child("requestPolicy")
	switch {
	case p == nil:
		return nil
	case !shared:
		return field.ErrorList{field.Forbidden(at, "allowMultipleAllocations must be true")}
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		return field.ErrorList{field.Forbidden(at, `exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case len(p.ValidValues) > 0 && p.Default == nil:
		return field.ErrorList{field.Required(at.Child("default"), "required when validValues is defined")}
	case len(p.ValidValues) > 0:
		return validateValues(*p.Default, c.Value, p.ValidValues, at.Child("validValues"))
	case p.ValidRange != nil && p.Default == nil:
		return field.ErrorList{field.Required(at.Child("default"), "required when validRange is defined")}
	case p.ValidRange != nil:
		return validateRange(*p.Default, c.Value, p.ValidRange, at.Child("validRange"))
	}
	return nil
}

func validateValues(standard, most resource.Quantity, values []resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := 1; i < len(values); i++ {
		if values[i-1].Cmp(values[i]) > 0 {
			errs = append(errs, field.Invalid(path.Index(i), values[i].String(), "values must be sorted in ascending order"))
		}
	}
	found := false
	errs = append(errs, set(values, mostOptions, path,
		func(q resource.Quantity) string { return strconv.FormatInt(q.Value(), 10) },
		func(q resource.Quantity, path *field.Path) field.ErrorList {
			found = found || q.Cmp(standard) == 0
			if q.Cmp(most) > 0 {
				return field.ErrorList{field.Invalid(path, q.String(), fmt.Sprintf("option is larger than capacity value: %s", most.String()))}
			}
			return nil
		})...)
	if !found {
		errs = append(errs, field.Invalid(path, standard.String(), "default value is not valid according to the requestPolicy"))
	}
	return errs
}

func validateRange(standard, most resource.Quantity, r *resourcev1.CapacityRequestPolicyRange, path *field.Path) field.ErrorList {
	if r.Min == nil {
		return field.ErrorList{field.Required(path.Child("min"), "required when validRange is defined")}
	}
	var errs field.ErrorList
	larger := func(a, b resource.Quantity, name string, shown resource.Quantity, words string) {
		if a.Cmp(b) > 0 {
			errs = append(errs, field.Invalid(path.Child(name), shown.String(), words))
		}
	}
	larger(*r.Min, most, "min", *r.Min, "min is larger than capacity value: "+most.String())
	larger(*r.Min, standard, "min", standard, "default is less than min: "+r.Min.String())
	if r.Max != nil {
		larger(*r.Min, *r.Max, "max", *r.Min, "min is larger than max: "+r.Max.String())
		larger(*r.Max, most, "max", *r.Max, "max is larger than capacity value: "+most.String())
		larger(standard, *r.Max, "max", standard, "default is more than max: "+r.Max.String())
	}
	if r.Step == nil {
		return errs
	}
	first := r.Min.DeepCopy()
	first.Add(*r.Step)
	larger(first, most, "step", *r.Step, fmt.Sprintf("one step %s is larger than capacity value: %s", first.String(), most.String()))
	errs = append(errs, validateStep(standard, *r.Min, *r.Step, path.Child("step"))...)
	if r.Max != nil {
		errs = append(errs, validateStep(*r.Max, *r.Min, *r.Step, path.Child("step"))...)
	}
	return errs
}

func validateStep(value, from, step resource.Quantity, path *field.Path) field.ErrorList {
	by := step.Value()
	if by == 0 {
		// Upstream divides by it, and its request fails by a panic.
		return field.ErrorList{field.Invalid(path, step.String(), "must be greater than zero")}
	}
	if (value.Value()-from.Value())%by != 0 {
		return field.ErrorList{field.Invalid(path, value.String(), fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", step.String(), from.String()))}
	}
	return nil
}
