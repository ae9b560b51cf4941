package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api/auth/pki"
)

// The administrator has what a ClusterRoleBinding gives: the rights can be
// withdrawn, and then system:masters alone gets in.
func TestAdministratorIsBoundByRBAC(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	admin := overTLS(t, s)
	file := s.SuperAdminKubeconfig()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || filepath.Base(file) != "super-admin.kubeconfig" {
		t.Fatalf("%s: %v %v", file, info, err)
	}
	super := asSuperAdmin(t, s)
	for name, c := range map[string]*kubernetes.Clientset{"admin": admin, "super-admin": super} {
		if _, err := c.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "mine"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ann"}}}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Errorf("the administrator gives what it has: %v", err)
	}

	if err := super.RbacV1().ClusterRoleBindings().Delete(ctx, pki.ClusterAdminsGroup, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		_, err := admin.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), `User "kubernetes-admin" cannot list resource "secrets"`)
	})
	// Who lost the rights takes nothing back by itself.
	again := binding.DeepCopy()
	again.ResourceVersion, again.UID, again.Name = "", "", "again"
	again.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.SystemPrivilegedGroup}}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, again, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the administrator without rights binds: %v", err)
	}
	if _, err := super.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("system:masters: %v", err)
	}
}
