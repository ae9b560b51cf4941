package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// SameRule reports whether two rules are equal, their lists in the same order. It
// allocates nothing: sets of hundreds of rules are compared every few seconds.
func SameRule(a, b *rbacv1.PolicyRule) bool {
	return slices.Equal(a.Verbs, b.Verbs) && slices.Equal(a.APIGroups, b.APIGroups) && slices.Equal(a.Resources, b.Resources) &&
		slices.Equal(a.ResourceNames, b.ResourceNames) && slices.Equal(a.NonResourceURLs, b.NonResourceURLs)
}
