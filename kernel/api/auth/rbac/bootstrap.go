package rbac

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/reconciliation"

	"golang.org/x/sync/errgroup"
)

// bootstrapWriters write at the same time, so that the store can group them.
const bootstrapWriters = 16

// Bootstrap makes sure that the default roles and bindings grant at least what
// Defaults says. It lists each kind once and writes what is missing or lacks
// something; rules and subjects that others added stay. client must be allowed
// everything. It returns what it had to write.
func Bootstrap(ctx context.Context, client kubernetes.Interface) (Policy, error) {
	want := Defaults()
	have, err := listExisting(ctx, client)
	if err != nil {
		return Policy{}, fmt.Errorf("bootstrap rbac: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(bootstrapWriters)
	var (
		mu      sync.Mutex
		written Policy
	)
	ensure := func(kind, name string, run func() (bool, error), note func()) {
		group.Go(func() error {
			var wrote bool
			// Another writer may be quicker; then the live object decides.
			// One that cannot be read is named by whoever reads it, and keeps no server from starting.
			if err := retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) { wrote, err = run(); return err }); err != nil && !unreadable(err) {
				return fmt.Errorf("bootstrap rbac: %s %s: %w", kind, name, err)
			}
			if wrote {
				mu.Lock()
				defer mu.Unlock()
				note()
			}
			return nil
		})
	}
	for i := range want.ClusterRoles {
		role := &want.ClusterRoles[i]
		if sameClusterRole(have.clusterRoles[role.Name], role) {
			continue
		}
		ensure("clusterrole", role.Name, func() (bool, error) {
			options := reconciliation.ReconcileRoleOptions{
				Role: reconciliation.ClusterRoleRuleOwner{ClusterRole: role}, Confirm: true,
				Client: &clusterRoleClient{ctx, have.clusterRoles, client},
			}
			done, err := options.Run()
			return err == nil && !done.Protected && done.Operation != reconciliation.ReconcileNone, err
		}, func() { written.ClusterRoles = append(written.ClusterRoles, *role) })
	}
	for i := range want.ClusterRoleBindings {
		binding := &want.ClusterRoleBindings[i]
		if sameClusterBinding(have.clusterBindings[binding.Name], binding) {
			continue
		}
		ensure("clusterrolebinding", binding.Name, func() (bool, error) {
			options := reconciliation.ReconcileRoleBindingOptions{
				RoleBinding: reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: binding}, Confirm: true,
				// Clusters of an earlier release gave all nodes the whole role.
				RemoveExtraSubjects: binding.Name == roleNode,
				Client:              &clusterBindingClient{ctx, have.clusterBindings, client},
			}
			done, err := options.Run()
			return err == nil && !done.Protected && done.Operation != reconciliation.ReconcileNone, err
		}, func() { written.ClusterRoleBindings = append(written.ClusterRoleBindings, *binding) })
	}
	for i := range want.Roles {
		role := &want.Roles[i]
		if sameRole(have.roles[objectKey{role.Namespace, role.Name}], role) {
			continue
		}
		ensure("role", role.Namespace+"/"+role.Name, func() (bool, error) {
			options := reconciliation.ReconcileRoleOptions{
				Role: reconciliation.RoleRuleOwner{Role: role}, Confirm: true,
				Client: &roleClient{ctx, have.roles, client},
			}
			done, err := options.Run()
			return err == nil && !done.Protected && done.Operation != reconciliation.ReconcileNone, err
		}, func() { written.Roles = append(written.Roles, *role) })
	}
	for i := range want.RoleBindings {
		binding := &want.RoleBindings[i]
		if sameBinding(have.bindings[objectKey{binding.Namespace, binding.Name}], binding) {
			continue
		}
		ensure("rolebinding", binding.Namespace+"/"+binding.Name, func() (bool, error) {
			options := reconciliation.ReconcileRoleBindingOptions{
				RoleBinding: reconciliation.RoleBindingAdapter{RoleBinding: binding}, Confirm: true,
				Client: &bindingClient{ctx, have.bindings, client},
			}
			done, err := options.Run()
			return err == nil && !done.Protected && done.Operation != reconciliation.ReconcileNone, err
		}, func() { written.RoleBindings = append(written.RoleBindings, *binding) })
	}
	err = group.Wait()
	return written, err
}

// existing are the objects found by the lists.
type existing struct {
	clusterRoles    map[string]*rbacv1.ClusterRole
	clusterBindings map[string]*rbacv1.ClusterRoleBinding
	roles           map[objectKey]*rbacv1.Role
	bindings        map[objectKey]*rbacv1.RoleBinding
}

func listExisting(ctx context.Context, client kubernetes.Interface) (*existing, error) {
	have := &existing{
		map[string]*rbacv1.ClusterRole{}, map[string]*rbacv1.ClusterRoleBinding{},
		map[objectKey]*rbacv1.Role{}, map[objectKey]*rbacv1.RoleBinding{},
	}
	all := metav1.ListOptions{}
	clusterRoles, err := client.RbacV1().ClusterRoles().List(ctx, all)
	if err != nil {
		return nil, err
	}
	for i := range clusterRoles.Items {
		have.clusterRoles[clusterRoles.Items[i].Name] = &clusterRoles.Items[i]
	}
	clusterBindings, err := client.RbacV1().ClusterRoleBindings().List(ctx, all)
	if err != nil {
		return nil, err
	}
	for i := range clusterBindings.Items {
		have.clusterBindings[clusterBindings.Items[i].Name] = &clusterBindings.Items[i]
	}
	for _, namespace := range []string{metav1.NamespaceSystem, metav1.NamespacePublic} {
		roles, err := client.RbacV1().Roles(namespace).List(ctx, all)
		if err != nil {
			return nil, err
		}
		for i := range roles.Items {
			have.roles[objectKey{namespace, roles.Items[i].Name}] = &roles.Items[i]
		}
		bindings, err := client.RbacV1().RoleBindings(namespace).List(ctx, all)
		if err != nil {
			return nil, err
		}
		for i := range bindings.Items {
			have.bindings[objectKey{namespace, bindings.Items[i].Name}] = &bindings.Items[i]
		}
	}
	return have, nil
}

// ensureNamespace creates the namespace of a default role before it.
func ensureNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
