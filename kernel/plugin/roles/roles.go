package roles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api/auth/rbac"
)

// KindLabel of a role is the kind of the plugin that it is for.
const KindLabel = "kernel.pintle.dev/plugin-kind"

// Grant is what a plugin, or a bundle, may do.
type Grant struct {
	Kind  string
	Rules []rbacv1.PolicyRule
}

// Grants are by the name of the plugin or bundle.
type Grants map[string]Grant

// Writer makes the API's roles those of grants. It belongs to one goroutine.
type Writer struct {
	client kubernetes.Interface
	// written and withdrawn are the grants, encoded, for which that was done last.
	written, withdrawn string
}

// New returns a writer that has written nothing.
func New(client kubernetes.Interface) *Writer { return &Writer{client: client} }

// Write creates, widens and narrows the roles of those who are granted something,
// and binds them. It does nothing when the grants are those of the last time.
func (w *Writer) Write(ctx context.Context, grants Grants) error {
	text, err := grants.text("")
	if err != nil || w.written == text {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(grants)) {
		if err := w.permit(ctx, name, grants[name]); err != nil {
			return fmt.Errorf("permissions of plugin %s: %w", name, err)
		}
	}
	w.written = text
	return nil
}

// Withdraw deletes the roles and bindings of everybody who is granted nothing,
// but for the kinds of plugins that another kernel writes. A role that does not
// say its kind is of an earlier version; it stays where there are such kinds.
func (w *Writer) Withdraw(ctx context.Context, grants Grants, others []string) error {
	text, err := grants.text(strings.Join(others, ","))
	if err != nil || w.withdrawn == text {
		return err
	}
	gone := func(o *metav1.ObjectMeta) bool {
		name, ours := strings.CutPrefix(o.Name, rbac.PluginRolePrefix)
		if !ours || len(grants[name].Rules) > 0 {
			return false
		}
		kind := o.Labels[KindLabel]
		return len(others) == 0 || kind != "" && !slices.Contains(others, kind)
	}
	var faults []error
	noted := func(what string, err error) {
		if err != nil && !apierrors.IsNotFound(err) {
			faults = append(faults, fmt.Errorf("delete %s: %w", what, err))
		}
	}
	bindings, err := w.client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("bindings of plugins that are in use no more: %w", err)
	}
	for i := range bindings.Items {
		if o := &bindings.Items[i].ObjectMeta; gone(o) {
			noted("cluster role binding "+o.Name, w.client.RbacV1().ClusterRoleBindings().Delete(ctx, o.Name, metav1.DeleteOptions{}))
		}
	}
	list, err := w.client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("roles of plugins that are in use no more: %w", err)
	}
	for i := range list.Items {
		if o := &list.Items[i].ObjectMeta; gone(o) {
			noted("cluster role "+o.Name, w.client.RbacV1().ClusterRoles().Delete(ctx, o.Name, metav1.DeleteOptions{}))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	w.withdrawn = text
	return nil
}

// text is the same for the same grants: maps are encoded in the order of their keys.
func (g Grants) text(more string) (string, error) {
	data, err := json.Marshal(g)
	if err != nil {
		return "", fmt.Errorf("permissions of plugins: %w", err)
	}
	return string(data) + more, nil
}

func (w *Writer) permit(ctx context.Context, name string, grant Grant) error {
	role, binding := rbac.PluginPolicy(name, grant.Rules)
	role.Labels[KindLabel], binding.Labels[KindLabel] = grant.Kind, grant.Kind
	if exists, err := w.role(ctx, role); err != nil || !exists {
		return err
	}
	return w.binding(ctx, binding)
}

// role reports whether there is the role then: one of no rules is not made.
func (w *Writer) role(ctx context.Context, role *rbacv1.ClusterRole) (exists bool, err error) {
	roles := w.client.RbacV1().ClusterRoles()
	old, err := roles.Get(ctx, role.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && len(role.Rules) == 0:
		return false, nil
	case apierrors.IsNotFound(err):
		_, err = roles.Create(ctx, role, metav1.CreateOptions{})
	case err != nil:
	case !equality.Semantic.DeepEqual(old.Rules, role.Rules) || old.AggregationRule != nil || old.Labels[KindLabel] != role.Labels[KindLabel]:
		role.ResourceVersion = old.ResourceVersion
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
	}
	return err == nil, err
}

func (w *Writer) binding(ctx context.Context, binding *rbacv1.ClusterRoleBinding) error {
	bindings := w.client.RbacV1().ClusterRoleBindings()
	old, err := bindings.Get(ctx, binding.Name, metav1.GetOptions{})
	if err == nil && !equality.Semantic.DeepEqual(old.RoleRef, binding.RoleRef) {
		// What a binding refers to cannot be changed.
		if err = bindings.Delete(ctx, binding.Name, metav1.DeleteOptions{}); err == nil || apierrors.IsNotFound(err) {
			_, err = bindings.Create(ctx, binding, metav1.CreateOptions{})
		}
		return err
	}
	switch {
	case apierrors.IsNotFound(err):
		_, err = bindings.Create(ctx, binding, metav1.CreateOptions{})
	case err != nil:
	case !equality.Semantic.DeepEqual(old.Subjects, binding.Subjects) || old.Labels[KindLabel] != binding.Labels[KindLabel]:
		binding.ResourceVersion = old.ResourceVersion
		_, err = bindings.Update(ctx, binding, metav1.UpdateOptions{})
	}
	return err
}
