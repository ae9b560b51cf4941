package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Most starts find the default objects as an earlier one wrote them. The functions
// below see that at a glance; what differs in any way is reconciled rule by rule.

func sameClusterRole(have, want *rbacv1.ClusterRole) bool {
	return have != nil && marked(have, want) && equality.Semantic.DeepEqual(have.AggregationRule, want.AggregationRule) &&
		// The rules of an aggregated role are those of others.
		(want.AggregationRule != nil || equality.Semantic.DeepEqual(have.Rules, want.Rules))
}

func sameRole(have, want *rbacv1.Role) bool {
	return have != nil && marked(have, want) && equality.Semantic.DeepEqual(have.Rules, want.Rules)
}

func sameClusterBinding(have, want *rbacv1.ClusterRoleBinding) bool {
	return have != nil && marked(have, want) && have.RoleRef == want.RoleRef && equality.Semantic.DeepEqual(have.Subjects, want.Subjects)
}

func sameBinding(have, want *rbacv1.RoleBinding) bool {
	return have != nil && marked(have, want) && have.RoleRef == want.RoleRef && equality.Semantic.DeepEqual(have.Subjects, want.Subjects)
}

// marked says that an object has the labels and annotations of the default one.
func marked(have, want metav1.Object) bool {
	return within(want.GetLabels(), have.GetLabels()) && within(want.GetAnnotations(), have.GetAnnotations())
}

func within(part, whole map[string]string) bool {
	for k, v := range part {
		if got, ok := whole[k]; !ok || got != v {
			return false
		}
	}
	return true
}
