package resources

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPolicyRules(t *testing.T) {
	pods := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	tests := []struct {
		name       string
		rule       rbacv1.PolicyRule
		namespaced bool
		want       []string
	}{
		{"good", pods, true, nil},
		{"no verbs", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}}, true, []string{"rules[0].verbs: Required value: verbs must contain at least one value"}},
		{"empty", rbacv1.PolicyRule{Verbs: []string{"get"}}, true, []string{
			"rules[0].apiGroups: Required value: resource rules must supply at least one api group",
			"rules[0].resources: Required value: resource rules must supply at least one resource"}},
		{"urls in a namespace", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}}, true, []string{`rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs`}},
		{"urls", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}}, false, nil},
		{"mixed", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}, Resources: []string{"pods"}}, false, []string{`rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.namespaced {
				sameErrors(t, created(roleKind(), &rbacv1.Role{ObjectMeta: objectMeta("system:a"), Rules: []rbacv1.PolicyRule{tt.rule}}), tt.want...)
			} else {
				sameErrors(t, created(clusterRoleKind(), &rbacv1.ClusterRole{ObjectMeta: clusterMeta("system:a"), Rules: []rbacv1.PolicyRule{tt.rule}}), tt.want...)
			}
		})
	}
	slashed := rbacv1.Role{ObjectMeta: objectMeta("a/b")}
	sameErrors(t, created(roleKind(), &slashed), `metadata.name: Invalid value: "a/b": may not contain '/'`)
}

func TestClusterRoleAggregation(t *testing.T) {
	k := clusterRoleKind()
	o := &rbacv1.ClusterRole{ObjectMeta: clusterMeta("a"), AggregationRule: &rbacv1.AggregationRule{}}
	sameErrors(t, created(k, o), "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil")
	o.AggregationRule.ClusterRoleSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}
	sameErrors(t, created(k, o))
	o.AggregationRule.ClusterRoleSelectors[0].MatchLabels["a"] = "-"
	if errs := created(k, o); len(errs) == 0 {
		t.Error("an invalid label value is admitted")
	}
}

func TestRoleBinding(t *testing.T) {
	k, c := roleBindingKind(), clusterRoleBindingKind()
	o := &rbacv1.RoleBinding{
		ObjectMeta: objectMeta("b"), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"},
		Subjects: []rbacv1.Subject{
			{Kind: "User", Name: "u"}, {Kind: "Group", Name: "g"}, {Kind: "Group", Name: "h"},
			{Kind: "ServiceAccount", Name: "s", Namespace: "n"},
		},
	}
	defaulting(t).Default(o)
	if o.RoleRef.APIGroup != rbacv1.GroupName || o.Subjects[0].APIGroup != rbacv1.GroupName || o.Subjects[3].APIGroup != "" {
		t.Errorf("defaults: %+v %+v", o.RoleRef, o.Subjects)
	}
	sameErrors(t, created(k, o))
	sameCells(t, k, o, "b", "Role/r", "<unknown>", "u", "g, h", "n/s")

	changed := o.DeepCopy()
	changed.RoleRef.Name = "other"
	sameErrors(t, updated(k.Strategy, changed, o), `roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"other"}: cannot change roleRef`)
	bad := &rbacv1.RoleBinding{ObjectMeta: objectMeta("b"), RoleRef: rbacv1.RoleRef{APIGroup: "x", Kind: "Pod"}, Subjects: []rbacv1.Subject{{Kind: "User"}, {Kind: "Robot", Name: "a"}}}
	sameErrors(t, created(k, bad),
		`roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"`,
		`roleRef.kind: Unsupported value: "Pod": supported values: "Role", "ClusterRole"`,
		"roleRef.name: Required value", "subjects[0].name: Required value",
		`subjects[0].apiGroup: Unsupported value: "": supported values: "rbac.authorization.k8s.io"`,
		`subjects[1].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"`)

	cluster := &rbacv1.ClusterRoleBinding{ObjectMeta: clusterMeta("b"), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "s"}}}
	defaulting(t).Default(cluster)
	sameErrors(t, created(c, cluster), `roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`, "subjects[0].namespace: Required value")
}
