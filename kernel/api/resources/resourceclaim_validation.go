package resources

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateResourceClaims checks the claims that a pod's containers refer to.
func validateResourceClaims(claims []corev1.PodResourceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range claims {
		p := path.Index(i)
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(p.Child("name"), ""))
		case slices.ContainsFunc(claims[:i], func(o corev1.PodResourceClaim) bool { return o.Name == c.Name }):
			errs = append(errs, field.Duplicate(p.Child("name"), c.Name))
		default:
			errs = append(errs, invalidAll(p.Child("name"), c.Name, validation.IsDNS1123Label(c.Name))...)
		}
		switch named, made := c.ResourceClaimName != nil, c.ResourceClaimTemplateName != nil; {
		case named && made:
			errs = append(errs, field.Invalid(p, c, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case !named && !made:
			errs = append(errs, field.Invalid(p, c, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		for _, ref := range []struct {
			name  string
			value *string
		}{{"resourceClaimName", c.ResourceClaimName}, {"resourceClaimTemplateName", c.ResourceClaimTemplateName}} {
			if ref.value != nil {
				errs = append(errs, invalidAll(p.Child(ref.name), *ref.value, validation.IsDNS1123Subdomain(*ref.value))...)
			}
		}
	}
	return errs
}

// validateResourceClaimStatuses: a status belongs to a claim of the pod, once.
func validateResourceClaimStatuses(statuses []corev1.PodResourceClaimStatus, claims []corev1.PodResourceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, s := range statuses {
		p := path.Index(i)
		if !slices.ContainsFunc(claims, func(c corev1.PodResourceClaim) bool { return c.Name == s.Name }) {
			errs = append(errs, field.Invalid(p.Child("name"), s.Name, "must match the name of an entry in `spec.resourceClaims`"))
		}
		if slices.ContainsFunc(statuses[:i], func(o corev1.PodResourceClaimStatus) bool { return o.Name == s.Name }) {
			errs = append(errs, field.Duplicate(p.Child("name"), s.Name))
		}
		if n := s.ResourceClaimName; n != nil {
			errs = append(errs, invalidAll(p.Child("name"), *n, validation.IsDNS1123Subdomain(*n))...)
		}
	}
	return errs
}
