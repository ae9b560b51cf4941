package resource

import (
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/google/uuid"
)

// each checks the items of a list, unless there are more than most of them: then
// that is all that is said. Less than zero is no bound.
func each[T any](items []T, most int, path *field.Path, check func(T, *field.Path) field.ErrorList) (errs field.ErrorList, tooMany bool) {
	if most >= 0 && len(items) > most {
		return field.ErrorList{field.TooMany(path, len(items), most)}, true
	}
	for i, item := range items {
		errs = append(errs, check(item, path.Index(i))...)
	}
	return errs, false
}

// list is each of a list that may have equal items.
func list[T any](items []T, most int, path *field.Path, check func(T, *field.Path) field.ErrorList) field.ErrorList {
	errs, _ := each(items, most, path, check)
	return errs
}

// set is each of a list whose items have different keys.
func set[T any, K comparable](items []T, most int, path *field.Path, key func(T) K, check func(T, *field.Path) field.ErrorList) field.ErrorList {
	errs, tooMany := each(items, most, path, check)
	if tooMany {
		return errs
	}
	seen := make(map[K]struct{}, len(items))
	for i, item := range items {
		k := key(item)
		if _, ok := seen[k]; ok {
			errs = append(errs, field.Duplicate(path.Index(i), k))
		}
		seen[k] = struct{}{}
	}
	return errs
}

// byKey checks the keys of a map at its own path and the values at theirs, in which
// a long key is shortened.
func byKey[K ~string, T any](items map[K]T, most, shown int, path *field.Path, key func(K, *field.Path) field.ErrorList, value func(T, *field.Path) field.ErrorList) field.ErrorList {
	if most >= 0 && len(items) > most {
		return field.ErrorList{field.TooMany(path, len(items), most)}
	}
	var errs field.ErrorList
	for k, item := range items {
		errs = append(errs, key(k, path)...)
		if value != nil {
			errs = append(errs, value(item, path.Key(shortened(string(k), shown)))...)
		}
	}
	return errs
}

// shortened takes out the middle of what is longer than most.
func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const gap = "..."
	rest := most - len(gap)
	return s[:(rest+1)/2] + gap + s[len(s)-rest/2:]
}

func itself[T any](v T) T { return v }

// invalid is one error a message.
func invalid(path *field.Path, value any, msgs []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range msgs {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

func validateLabel(s string, path *field.Path) field.ErrorList {
	return invalid(path, s, validation.IsDNS1123Label(s))
}

func validateSubdomain(s string, path *field.Path) field.ErrorList {
	return invalid(path, s, validation.IsDNS1123Subdomain(s))
}

// validateDriver: a driver's name is a CSI driver's.
func validateDriver(s string, path *field.Path) field.ErrorList {
	if s == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(s) > resourcev1.DriverNameMaxLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.DriverNameMaxLength))
	}
	return append(errs, invalid(path, s, validation.IsDNS1123Subdomain(strings.ToLower(s)))...)
}

func validatePool(s string, path *field.Path) field.ErrorList {
	if s == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(s) > resourcev1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.PoolNameMaxLength))
	}
	for part := range strings.SplitSeq(s, "/") {
		errs = append(errs, validateSubdomain(part, path)...)
	}
	return errs
}

func validateShare(id string, path *field.Path) field.ErrorList {
	if err := uuid.Validate(id); err != nil {
		return field.ErrorList{field.Invalid(path, id, fmt.Sprintf("error validating uid: %v", err))}
	}
	if len(id) != 36 || id != strings.ToLower(id) {
		return field.ErrorList{field.Invalid(path, id, "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters")}
	}
	return nil
}

func validateIdentifier(s string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.DeviceMaxIDLength))
	}
	return append(errs, invalid(path, s, content.IsCIdentifier(s))...)
}

// validateQualified: the name of an attribute or capacity, perhaps with a driver's
// domain. Upstream lets names with several slashes pass, unseen.
func validateQualified(name resourcev1.QualifiedName, path *field.Path) field.ErrorList {
	parts := strings.Split(string(name), "/")
	switch len(parts) {
	case 1:
		return validateIdentifier(parts[0], path)
	case 2:
	default:
		return nil
	}
	var errs field.ErrorList
	if parts[0] == "" {
		errs = append(errs, field.Invalid(path, "", "the domain must not be empty"))
	} else {
		errs = append(errs, validateDriver(parts[0], path)...)
	}
	if parts[1] == "" {
		return append(errs, field.Invalid(path, "", "the name must not be empty"))
	}
	return append(errs, validateIdentifier(parts[1], path)...)
}

func validateFullyQualified(name resourcev1.FullyQualifiedName, path *field.Path) field.ErrorList {
	errs := validateQualified(resourcev1.QualifiedName(name), path)
	if !strings.Contains(string(name), "/") {
		errs = append(errs, field.Invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash"))
	}
	return errs
}

func validateLabelValue(s string, path *field.Path) field.ErrorList {
	return invalid(path, s, validation.IsValidLabelValue(s))
}
