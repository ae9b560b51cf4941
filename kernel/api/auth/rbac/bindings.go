package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"pintle.dev/pintle/kernel/api/auth/pki"
)

const (
	authenticationReader = "extension-apiserver-authentication-reader"
	lockManager          = "system::leader-locking-kube-controller-manager"
	lockScheduler        = "system::leader-locking-kube-scheduler"
)

func clusterBindings() []rbacv1.ClusterRoleBinding {
	return []rbacv1.ClusterRoleBinding{
		bound("cluster-admin", subjectGroup(user.SystemPrivilegedGroup)),
		administrators(),
		bound("system:monitoring", subjectGroup(user.MonitoringGroup)),
		bound("system:discovery", subjectGroup(user.AllAuthenticated)),
		bound("system:basic-user", subjectGroup(user.AllAuthenticated)),
		bound("system:public-info-viewer", subjectGroup(user.AllAuthenticated), subjectGroup(user.AllUnauthenticated)),
		bound("system:node-proxier", subjectUser(user.KubeProxy)),
		bound("system:kube-controller-manager", subjectUser(user.KubeControllerManager)),
		bound("system:kube-dns", subjectAccount(metav1.NamespaceSystem, "kube-dns")),
		bound("system:kube-scheduler", subjectUser(user.KubeScheduler)),
		bound("system:volume-scheduler", subjectUser(user.KubeScheduler)),
		bound("system:service-account-issuer-discovery", subjectGroup(serviceaccount.AllServiceAccountsGroup)),
		// The Node authorizer gives each node its share; nobody has the whole.
		bound(roleNode),
		// The API server's own certificate towards node agents.
		bound("system:kubelet-api-admin", subjectUser("kube-apiserver-kubelet-client")),
	}
}

// administrators gives the group of admin.kubeconfig its rights; who takes it
// away, or edits it with the annotation autoupdate=false, takes them.
func administrators() rbacv1.ClusterRoleBinding {
	out := bound("cluster-admin", subjectGroup(pki.ClusterAdminsGroup))
	out.Name = pki.ClusterAdminsGroup
	return out
}

func namespaceRoles() []rbacv1.Role {
	lock := func(name string) rbacv1.Role {
		return role(metav1.NamespaceSystem, name,
			on(verbs("get", "watch", "list", "create", "update"), groupCoordination, "leases"),
			on(verbs("get", "watch", "list", "create", "update"), groupCoordination, "leasecandidates"))
	}
	return []rbacv1.Role{
		role(metav1.NamespaceSystem, authenticationReader,
			named(on(reading, groupCore, "configmaps"), "extension-apiserver-authentication")),
		lock(lockManager),
		lock(lockScheduler),
	}
}

func namespaceBindings() []rbacv1.RoleBinding {
	system := metav1.NamespaceSystem
	return []rbacv1.RoleBinding{
		boundIn(system, "system::"+authenticationReader, authenticationReader,
			subjectUser(user.KubeControllerManager), subjectUser(user.KubeScheduler)),
		boundIn(system, lockManager, lockManager, subjectUser(user.KubeControllerManager),
			subjectAccount(system, "kube-controller-manager"), subjectAccount(system, "leader-election-controller")),
		boundIn(system, lockScheduler, lockScheduler, subjectUser(user.KubeScheduler), subjectAccount(system, "kube-scheduler")),
	}
}
