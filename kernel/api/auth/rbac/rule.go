package rbac

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verb sets and API groups of the default roles.
var (
	reading  = []string{"get", "list", "watch"}
	writing  = []string{"create", "update", "patch", "delete", "deletecollection"}
	both     = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	updating = []string{"get", "list", "watch", "update", "patch"}

	following = []string{"list", "watch"}
	changing  = []string{"update", "patch"}
	managing  = []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	// ownPods is what a controller does with the pods that it makes.
	ownPods = []string{"list", "watch", "create", "delete", "patch"}

	// workloadGroups are those that Deployments, DaemonSets and ReplicaSets were of.
	workloadGroups = []string{groupApps, groupExtensions}
)

const (
	groupAdmission      = "admissionregistration.k8s.io"
	groupCore           = ""
	groupApps           = "apps"
	groupAuthentication = "authentication.k8s.io"
	groupAuthorization  = "authorization.k8s.io"
	groupAutoscaling    = "autoscaling"
	groupBatch          = "batch"
	groupCertificates   = "certificates.k8s.io"
	groupCoordination   = "coordination.k8s.io"
	groupDiscovery      = "discovery.k8s.io"
	groupEvents         = "events.k8s.io"
	groupExtensions     = "extensions"
	groupNetworking     = "networking.k8s.io"
	groupNode           = "node.k8s.io"
	groupPolicy         = "policy"
	groupResource       = "resource.k8s.io"
	groupStorage        = "storage.k8s.io"
)

func verbs(v ...string) []string { return v }

// on is a rule over resources of one API group.
func on(verbs []string, group string, resources ...string) rbacv1.PolicyRule {
	return onGroups(verbs, []string{group}, resources...)
}

func onGroups(verbs, groups []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: resources}
}

func named(rule rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}

func paths(urls ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs("get"), NonResourceURLs: urls}
}

func writeEvents() rbacv1.PolicyRule {
	return onGroups(verbs("create", "update", "patch"), []string{groupCore, groupEvents}, "events")
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
	return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) rbacv1.Role {
	return rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

func subjectUser(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

func subjectGroup(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

func subjectAccount(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// bound binds the ClusterRole of the same name.
func bound(name string, subjects ...rbacv1.Subject) rbacv1.ClusterRoleBinding {
	return rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   subjects,
	}
}

func boundIn(namespace, name, role string, subjects ...rbacv1.Subject) rbacv1.RoleBinding {
	return rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   subjects,
	}
}

// inOrder sorts the lists of each rule, as kube-apiserver shows its own.
func inOrder(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	sorted := func(list []string) []string { return slices.Sorted(slices.Values(list)) }
	out := make([]rbacv1.PolicyRule, 0, len(rules))
	for _, r := range rules {
		out = append(out, rbacv1.PolicyRule{
			Verbs: sorted(r.Verbs), APIGroups: sorted(r.APIGroups), Resources: sorted(r.Resources),
			ResourceNames: sorted(r.ResourceNames), NonResourceURLs: sorted(r.NonResourceURLs),
		})
	}
	return out
}

// mark adds the label and the annotation of default objects.
func mark(object metav1.Object) {
	labels := map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}
	maps.Copy(labels, object.GetLabels())
	object.SetLabels(labels)
	annotations := map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"}
	maps.Copy(annotations, object.GetAnnotations())
	object.SetAnnotations(annotations)
}
