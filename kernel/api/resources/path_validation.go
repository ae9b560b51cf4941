package resources

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateNoBacksteps refuses a path with a part "..".
func validateNoBacksteps(value string, p *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(value, "/"), "..") {
		return field.ErrorList{field.Invalid(p, value, "must not contain '..'")}
	}
	return nil
}

// validateDescending wants a relative path that stays below.
func validateDescending(value string, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if path.IsAbs(value) {
		errs = append(errs, field.Invalid(p, value, "must be a relative path"))
	}
	return append(errs, validateNoBacksteps(value, p)...)
}

// validateFileName is validateDescending and keeps ".." for the volumes' own
// files.
func validateFileName(value string, p *field.Path) field.ErrorList {
	errs := validateDescending(value, p)
	if strings.HasPrefix(value, "..") && !strings.HasPrefix(value, "../") {
		errs = append(errs, field.Invalid(p, value, "must not start with '..'"))
	}
	return errs
}
