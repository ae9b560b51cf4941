package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// systemRoles are for components and for every user's first steps.
func systemRoles() []rbacv1.ClusterRole {
	reviews := []rbacv1.PolicyRule{
		on(verbs("create"), groupAuthentication, "tokenreviews"),
		on(verbs("create"), groupAuthorization, "subjectaccessreviews"),
	}
	return []rbacv1.ClusterRole{
		clusterRole("system:discovery", paths("/livez", "/readyz", "/healthz", "/version", "/version/",
			"/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*")),
		clusterRole("system:monitoring",
			paths("/metrics", "/metrics/slis", "/livez", "/readyz", "/healthz", "/livez/*", "/readyz/*", "/healthz/*", "/flagz", "/statusz"),
			on(verbs("get"), groupCore, "nodes/metrics")),
		clusterRole("system:basic-user",
			on(verbs("create"), groupAuthorization, "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
			on(verbs("create"), groupAuthentication, "selfsubjectreviews")),
		clusterRole("system:public-info-viewer", paths("/livez", "/readyz", "/healthz", "/version", "/version/")),
		clusterRole("system:heapster",
			on(reading, groupCore, "events", "pods", "nodes", "namespaces"),
			on(reading, groupExtensions, "deployments")),
		clusterRole(roleNode, NodeRules()...),
		clusterRole("system:node-problem-detector",
			on(verbs("get"), groupCore, "nodes"),
			on(verbs("patch"), groupCore, "nodes/status"),
			writeEvents()),
		clusterRole("system:auth-delegator", reviews...),
		clusterRole("system:kube-aggregator", on(reading, groupCore, "services", "endpoints")),
		clusterRole("system:kube-controller-manager", slices.Concat([]rbacv1.PolicyRule{
			writeEvents(),
			on(verbs("create"), groupCoordination, "leases"),
			named(on(verbs("get", "update"), groupCoordination, "leases"), "kube-controller-manager"),
			on(verbs("create"), groupCore, "secrets", "serviceaccounts"),
			on(verbs("delete"), groupCore, "secrets"),
			on(verbs("get"), groupCore, "namespaces", "secrets", "serviceaccounts", "configmaps"),
			on(verbs("update"), groupCore, "secrets", "serviceaccounts"),
		}, reviews, []rbacv1.PolicyRule{
			on(following, "*", "*"),
			on(verbs("create"), groupCore, "serviceaccounts/token"),
		})...),
		clusterRole("system:kube-dns",
			on(verbs("list", "watch"), groupCore, "endpoints", "services")),
		clusterRole("system:persistent-volume-provisioner",
			on(verbs("get", "list", "watch", "create", "delete"), groupCore, "persistentvolumes"),
			on(verbs("get", "list", "watch", "update"), groupCore, "persistentvolumeclaims"),
			on(reading, groupStorage, "storageclasses"),
			on(verbs("watch"), groupCore, "events"),
			writeEvents()),
		clusterRole("system:volume-scheduler",
			on(updating, groupCore, "persistentvolumes"),
			on(reading, groupStorage, "storageclasses"),
			on(updating, groupCore, "persistentvolumeclaims")),
		clusterRole("system:service-account-issuer-discovery", paths(
			"/.well-known/openid-configuration", "/.well-known/openid-configuration/",
			"/openid/v1/jwks", "/openid/v1/jwks/")),
		clusterRole("system:kubelet-api-admin",
			on(reading, groupCore, "nodes"),
			on(verbs("proxy"), groupCore, "nodes"),
			on(verbs("*"), groupCore, "nodes/proxy", "nodes/metrics", "nodes/stats", "nodes/log"),
			on(verbs("*"), groupCore, "nodes/pods", "nodes/healthz", "nodes/configz")),
		clusterRole("system:node-proxier",
			on(verbs("list", "watch"), groupCore, "services", "endpoints"),
			on(reading, groupCore, "nodes"),
			writeEvents(),
			on(verbs("list", "watch"), groupNetworking, "servicecidrs"),
			on(verbs("list", "watch"), groupDiscovery, "endpointslices")),
		clusterRole("system:kube-scheduler", schedulerRules(reviews)...),
	}
}

func schedulerRules(reviews []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return slices.Concat([]rbacv1.PolicyRule{
		writeEvents(),
		on(verbs("create"), groupCoordination, "leases"),
		named(on(verbs("get", "update", "list", "watch"), groupCoordination, "leases"), "kube-scheduler"),
		on(both, groupCoordination, "leasecandidates"),
		on(reading, groupCore, "nodes"),
		on(verbs("get", "list", "watch", "delete"), groupCore, "pods"),
		on(verbs("create"), groupCore, "pods/binding", "bindings"),
		on(verbs("patch", "update"), groupCore, "pods/status"),
		on(reading, groupCore, "services", "replicationcontrollers"),
		onGroups(reading, []string{groupApps, groupExtensions}, "replicasets"),
		on(reading, groupApps, "statefulsets"),
		on(reading, groupPolicy, "poddisruptionbudgets"),
		on(reading, groupCore, "persistentvolumeclaims", "persistentvolumes"),
	}, reviews, []rbacv1.PolicyRule{
		on(reading, groupStorage, "csinodes"),
		on(reading, groupStorage, "volumeattachments"),
		on(reading, groupCore, "namespaces"),
		on(reading, groupStorage, "csidrivers"),
		on(reading, groupStorage, "csistoragecapacities"),
		on(reading, groupResource, "deviceclasses"),
		on(updating, groupResource, "resourceclaims"),
		on(updating, groupResource, "resourceclaims/status"),
		on(verbs("update"), groupCore, "pods/finalizers"),
		on(reading, groupResource, "resourceslices"),
		on(verbs("create", "delete"), groupResource, "resourceclaims"),
		on(changing, groupResource, "resourceclaims/binding"),
	})
}

const roleNode = "system:node"

// certificateRoles are for who asks for certificates of nodes, and for who
// approves requests, a role a signer. Nobody is bound to them.
func certificateRoles() []rbacv1.ClusterRole {
	const prefix = "system:certificates.k8s.io:"
	const requests = "certificatesigningrequests"
	out := []rbacv1.ClusterRole{
		clusterRole("system:node-bootstrapper", on(verbs("create", "get", "list", "watch"), groupCertificates, requests)),
		clusterRole(prefix+requests+":nodeclient", on(verbs("create"), groupCertificates, requests+"/nodeclient")),
		clusterRole(prefix+requests+":selfnodeclient", on(verbs("create"), groupCertificates, requests+"/selfnodeclient")),
	}
	for _, signer := range []string{"legacy-unknown", "kubelet-serving", "kube-apiserver-client", "kube-apiserver-client-kubelet"} {
		out = append(out, clusterRole(prefix+signer+"-approver", named(on(verbs("approve"), groupCertificates, "signers"), "kubernetes.io/"+signer)))
	}
	return out
}

// NodeRules are what a node agent needs, of any node: auth/node narrows them to
// what concerns the node that asks, admission/noderestriction the writes.
func NodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		on(verbs("create"), groupAuthentication, "tokenreviews"),
		on(verbs("create"), groupAuthorization, "subjectaccessreviews", "localsubjectaccessreviews"),
		on(reading, groupCore, "services"),
		on(verbs("create", "get", "list", "watch"), groupCore, "nodes"),
		on(verbs("update", "patch"), groupCore, "nodes/status"),
		on(verbs("update", "patch"), groupCore, "nodes"),
		writeEvents(),
		on(reading, groupCore, "pods"),
		on(verbs("create", "delete"), groupCore, "pods"),
		on(verbs("update", "patch"), groupCore, "pods/status"),
		on(verbs("create"), groupCore, "pods/eviction"),
		on(reading, groupCore, "secrets", "configmaps"),
		on(verbs("get"), groupCore, "persistentvolumeclaims", "persistentvolumes"),
		on(verbs("get"), groupCore, "endpoints"),
		on(verbs("create", "get", "list", "watch"), groupCertificates, "certificatesigningrequests"),
		on(verbs("get", "create", "update", "patch", "delete"), groupCoordination, "leases"),
		on(verbs("get"), groupStorage, "volumeattachments"),
		on(verbs("create"), groupCore, "serviceaccounts/token"),
		on(verbs("get", "update", "patch"), groupCore, "persistentvolumeclaims/status"),
		on(reading, groupStorage, "csidrivers"),
		on(verbs("get", "create", "update", "patch", "delete"), groupStorage, "csinodes"),
		on(reading, groupNode, "runtimeclasses"),
		on(verbs("get"), groupResource, "resourceclaims"),
		on(verbs("deletecollection"), groupResource, "resourceslices"),
		on(verbs("get"), groupCore, "serviceaccounts"),
	}
}
