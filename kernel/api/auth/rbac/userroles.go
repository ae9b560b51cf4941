package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const aggregateTo = "rbac.authorization.k8s.io/aggregate-to-"

// userRoles are for people: cluster-admin, and admin, edit and view for one
// namespace, the latter three gathered by aggregation.
func userRoles() []rbacv1.ClusterRole {
	return []rbacv1.ClusterRole{
		clusterRole("cluster-admin", fullAuthority()...),
		aggregated("admin", ""),
		aggregated("edit", "admin"),
		aggregated("view", "edit"),
		part("admin",
			on(verbs("create"), groupAuthorization, "localsubjectaccessreviews"),
			on(both, rbacv1.GroupName, "roles", "rolebindings"),
		),
		part("edit", editRules()...),
		part("view", viewRules()...),
	}
}

// aggregated gathers the roles labelled for name; it is itself part of the
// wider role, if there is one.
func aggregated(name, wider string) rbacv1.ClusterRole {
	out := clusterRole(name)
	if wider != "" {
		out.Labels = map[string]string{aggregateTo + wider: "true"}
	}
	out.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{aggregateTo + name: "true"}},
	}}
	return out
}

func part(of string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
	out := clusterRole("system:aggregate-to-"+of, rules...)
	out.Labels = map[string]string{aggregateTo + of: "true"}
	return out
}

func viewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		on(reading, groupCore, "pods", "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts",
			"services", "services/status", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "configmaps"),
		on(reading, groupCore, "limitranges", "resourcequotas", "bindings", "pods/status", "resourcequotas/status",
			"namespaces/status", "replicationcontrollers/status", "pods/log"),
		on(reading, groupCore, "namespaces"),
		onGroups(reading, []string{groupCore, groupEvents}, "events"),
		on(reading, groupDiscovery, "endpointslices"),
		on(reading, groupApps, "controllerrevisions", "statefulsets", "statefulsets/status", "statefulsets/scale",
			"daemonsets", "daemonsets/status", "deployments", "deployments/status", "deployments/scale",
			"replicasets", "replicasets/status", "replicasets/scale"),
		on(reading, groupAutoscaling, "horizontalpodautoscalers", "horizontalpodautoscalers/status"),
		on(reading, groupBatch, "jobs", "cronjobs", "cronjobs/status", "jobs/status"),
		on(reading, groupExtensions, "daemonsets", "daemonsets/status", "deployments", "deployments/scale", "deployments/status",
			"ingresses", "ingresses/status", "replicasets", "replicasets/scale", "replicasets/status",
			"replicationcontrollers/scale", "networkpolicies"),
		on(reading, groupPolicy, "poddisruptionbudgets", "poddisruptionbudgets/status"),
		on(reading, groupNetworking, "networkpolicies", "ingresses", "ingresses/status"),
		on(reading, groupResource, "resourceclaims", "resourceclaims/status", "resourceclaimtemplates"),
	}
}

func editRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		on(reading, groupCore, "pods/attach", "pods/proxy", "pods/exec", "pods/portforward", "secrets", "services/proxy"),
		on(verbs("impersonate"), groupCore, "serviceaccounts"),
		on(writing, groupCore, "pods", "pods/attach", "pods/proxy", "pods/exec", "pods/portforward"),
		on(verbs("create"), groupCore, "pods/eviction"),
		on(writing, groupCore, "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts",
			"services", "services/proxy", "persistentvolumeclaims", "configmaps", "secrets"),
		on(verbs("create"), groupCore, "serviceaccounts/token"),
		onGroups(writing, []string{groupCore, groupEvents}, "events"),
		on(writing, groupApps, "statefulsets", "statefulsets/scale", "daemonsets", "deployments", "deployments/scale",
			"deployments/rollback", "replicasets", "replicasets/scale"),
		on(writing, groupAutoscaling, "horizontalpodautoscalers"),
		on(writing, groupBatch, "jobs", "cronjobs"),
		on(writing, groupExtensions, "daemonsets", "deployments", "deployments/scale", "deployments/rollback", "ingresses",
			"replicasets", "replicasets/scale", "replicationcontrollers/scale", "networkpolicies"),
		on(writing, groupPolicy, "poddisruptionbudgets"),
		on(writing, groupNetworking, "networkpolicies", "ingresses"),
		on(both, groupCoordination, "leases"),
		on(writing, groupResource, "resourceclaims", "resourceclaimtemplates"),
	}
}
