package api_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api"
)

// as is a client of a user who has the rights and no others.
func as(t *testing.T, s *api.Server, name string, rules ...rbacv1.PolicyRule) kubernetes.Interface {
	t.Helper()
	admins := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).RbacV1()
	if _, err := admins.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admins.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := kubernetes.NewForConfigOrDie(s.ClientConfig(&user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}))
	waitFor(t, func() bool {
		_, err := c.CoreV1().ConfigMaps("default").List(context.Background(), metav1.ListOptions{})
		return err == nil
	})
	return c
}

// configMaps is the right to those.
func configMaps(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: append(verbs, "list"), APIGroups: []string{""}, Resources: []string{"configmaps"}}
}

// Where the plugin is on, owners take rights on every way to write them; where it is
// not, as by default, they take none.
func TestOwnerReferencesPermissionEnforcement(t *testing.T) {
	yes := true
	owner := func(kind string, blocks *bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: "owner", UID: "u", BlockOwnerDeletion: blocks}}
	}
	const (
		cannotDelete = "cannot set an ownerRef on a resource you can't delete"
		cannotBlock  = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
	)
	for name, on := range map[string]bool{"enabled": true, "default": false} {
		t.Run(name, func(t *testing.T) {
			s, _ := startWith(t, t.TempDir(), func(c *api.Config) {
				if on {
					c.EnableAdmission = []string{"OwnerReferencesPermissionEnforcement"}
				}
			})
			refused := func(what string, err error, fault string) {
				t.Helper()
				if !on {
					fault = ""
				}
				if (err == nil) != (fault == "") || err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), fault)) {
					t.Errorf("enabled %t: %s: %v, want %q", on, what, err, fault)
				}
			}
			writer := as(t, s, "writer", configMaps("create", "update", "patch"), rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}})
			deleter := as(t, s, "deleter", configMaps("create", "update", "delete"))
			finalizer := as(t, s, "finalizer", configMaps("create", "update", "delete"), rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{"secrets/finalizers"}, ResourceNames: []string{"owner"}})

			create := func(c kubernetes.Interface, name string, owners []metav1.OwnerReference) error {
				_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}, metav1.CreateOptions{})
				return err
			}
			refused("a new object with an owner", create(writer, "owned", owner("Secret", nil)), "")
			refused("a new object without", create(writer, "plain", nil), "")
			refused("a new object that blocks", create(writer, "blocks", owner("Secret", &yes)), cannotBlock)
			refused("a new object that blocks, with the right", create(finalizer, "may", owner("Secret", &yes)), "")
			refused("a new object that blocks another kind", create(finalizer, "node", owner("Node", &yes)), cannotBlock)
			refused("a kind that is none", create(finalizer, "none", owner("Nonesuch", &yes)), "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Nonesuch")

			patch := []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"owner","uid":"u"}]}}`)
			_, err := writer.CoreV1().ConfigMaps("default").Patch(t.Context(), "plain", types.MergePatchType, patch, metav1.PatchOptions{})
			refused("a patch gives an owner", err, cannotDelete)
			_, err = writer.CoreV1().ConfigMaps("default").Patch(t.Context(), "plain", types.ApplyPatchType,
				[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"plain","ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"two","uid":"v"}]}}`), metav1.PatchOptions{FieldManager: "m"})
			refused("an apply gives an owner", err, cannotDelete)
			update := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned"}}
			_, err = writer.CoreV1().ConfigMaps("default").Update(t.Context(), update, metav1.UpdateOptions{})
			refused("an update takes the owner away", err, cannotDelete)
			_, err = deleter.CoreV1().ConfigMaps("default").Update(t.Context(), update, metav1.UpdateOptions{})
			refused("who may delete takes the owner away", err, "")
			update.OwnerReferences = owner("Secret", &yes)
			_, err = deleter.CoreV1().ConfigMaps("default").Update(t.Context(), update, metav1.UpdateOptions{})
			refused("who may delete has it block", err, cannotBlock)
			_, err = finalizer.CoreV1().ConfigMaps("default").Update(t.Context(), update, metav1.UpdateOptions{})
			refused("who may do both has it block", err, "")

			// Ordinary creates of pods have a way of their own.
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", OwnerReferences: owner("Secret", &yes)}, Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
			_, err = writer.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
			refused("a pod that blocks", err, cannotBlock)
		})
	}
}
