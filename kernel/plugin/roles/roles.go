package roles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api/auth/rbac"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// KindLabel of a role is the kind of the plugin that it is for.
const KindLabel = "kernel.pintle.dev/plugin-kind"

// Grant is what a plugin, or a bundle, may do.
type Grant struct {
	Kind  string
	Rules []v1alpha1.PluginPermission
}

// in are the rules of a namespace, or with "" of the whole cluster.
func (g Grant) in(namespace string) (out []rbacv1.PolicyRule) {
	for i := range g.Rules {
		if g.Rules[i].Namespace == namespace {
			out = append(out, g.Rules[i].PolicyRule)
		}
	}
	return out
}

// namespaces are those that rules are of, each once.
func (g Grant) namespaces() (out []string) {
	for i := range g.Rules {
		if ns := g.Rules[i].Namespace; ns != "" && !slices.Contains(out, ns) {
			out = append(out, ns)
		}
	}
	return out
}

// Grants are by the name of the plugin or bundle.
type Grants map[string]Grant

// Writer makes the API's roles those of grants. It belongs to one goroutine.
type Writer struct {
	client kubernetes.Interface
	// written and withdrawn are the grants, encoded, for which that was done last.
	written, withdrawn string
	// looked is when the roles in namespaces were looked at, absent that one of the
	// namespaces was not there.
	looked time.Time
	absent bool
}

// lookEvery is how often roles in namespaces are looked at: they go with their
// namespace, and one of its name may be made again.
const lookEvery = 30 * time.Second

// New returns a writer that has written nothing.
func New(client kubernetes.Interface) *Writer { return &Writer{client: client} }

// Write creates, widens and narrows the roles of those who are granted something,
// and binds them. It does nothing when the grants are those of the last time, but that
// a namespace which is there since gets its roles.
func (w *Writer) Write(ctx context.Context, grants Grants) error {
	text, err := grants.text("")
	if err != nil {
		return err
	}
	known := w.written == text
	if known && !w.absent && time.Since(w.looked) < lookEvery {
		return nil
	}
	absent := false
	for _, name := range slices.Sorted(maps.Keys(grants)) {
		grant := grants[name]
		if !known {
			if err := w.permit(ctx, name, grant); err != nil {
				return fmt.Errorf("permissions of plugin %s: %w", name, err)
			}
		}
		for _, namespace := range grant.namespaces() {
			there, err := w.permitIn(ctx, name, namespace, grant)
			if err != nil {
				return fmt.Errorf("permissions of plugin %s in namespace %s: %w", name, namespace, err)
			}
			absent = absent || !there
		}
	}
	w.written, w.absent, w.looked = text, absent, time.Now()
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
	// of reports whether an object is one of a plugin that is granted nothing in the
	// namespace.
	of := func(o *metav1.ObjectMeta, plugin, namespace string) bool {
		if len(grants[plugin].in(namespace)) > 0 {
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
		o := &bindings.Items[i].ObjectMeta
		if name, ours := strings.CutPrefix(o.Name, rbac.PluginRolePrefix); ours && of(o, name, "") {
			noted("cluster role binding "+o.Name, w.client.RbacV1().ClusterRoleBindings().Delete(ctx, o.Name, metav1.DeleteOptions{}))
		}
	}
	list, err := w.client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("roles of plugins that are in use no more: %w", err)
	}
	for i := range list.Items {
		o := &list.Items[i].ObjectMeta
		name, ours := strings.CutPrefix(o.Name, rbac.PluginRolePrefix)
		plugin, namespace, _ := strings.Cut(name, ":")
		if ours && of(o, plugin, namespace) {
			noted("cluster role "+o.Name, w.client.RbacV1().ClusterRoles().Delete(ctx, o.Name, metav1.DeleteOptions{}))
		}
	}
	if err := w.withdrawIn(ctx, of, noted); err != nil {
		return err
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	w.withdrawn = text
	return nil
}

// withdrawIn does the same in all namespaces.
func (w *Writer) withdrawIn(ctx context.Context, of func(o *metav1.ObjectMeta, plugin, namespace string) bool, noted func(string, error)) error {
	bindings, err := w.client.RbacV1().RoleBindings("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("bindings of plugins that are in use no more: %w", err)
	}
	for i := range bindings.Items {
		o := &bindings.Items[i].ObjectMeta
		if name, ours := strings.CutPrefix(o.Name, rbac.PluginRolePrefix); ours && of(o, name, o.Namespace) {
			noted("role binding "+o.Namespace+"/"+o.Name, w.client.RbacV1().RoleBindings(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{}))
		}
	}
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
	role, binding := rbac.PluginPolicy(name, grant.in(""))
	role.Labels[KindLabel], binding.Labels[KindLabel] = grant.Kind, grant.Kind
	if exists, err := w.role(ctx, role); err != nil || !exists {
		return err
	}
	return w.binding(ctx, binding)
}

// role reports whether there is the role then: one of no rules is not made.
func (w *Writer) role(ctx context.Context, role *rbacv1.ClusterRole) (exists bool, err error) {
	roles := w.client.RbacV1().ClusterRoles()
	if len(role.Rules) == 0 {
		if _, err := roles.Get(ctx, role.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return false, nil
		}
	}
	err = write(ctx, roles, role, func(old *rbacv1.ClusterRole) difference {
		if equality.Semantic.DeepEqual(old.Rules, role.Rules) && old.AggregationRule == nil {
			return none
		}
		return updated
	})
	return err == nil, err
}

func (w *Writer) binding(ctx context.Context, binding *rbacv1.ClusterRoleBinding) error {
	return write(ctx, w.client.RbacV1().ClusterRoleBindings(), binding, func(old *rbacv1.ClusterRoleBinding) difference {
		switch {
		case !equality.Semantic.DeepEqual(old.RoleRef, binding.RoleRef):
			return replaced // what a binding refers to cannot be changed
		case !equality.Semantic.DeepEqual(old.Subjects, binding.Subjects):
			return updated
		}
		return none
	})
}

// permitIn reports whether the namespace is there; its end may have begun.
func (w *Writer) permitIn(ctx context.Context, name, namespace string, grant Grant) (there bool, err error) {
	role, binding := rbac.PluginNamespacePolicy(name, namespace, grant.in(namespace))
	role.Labels[KindLabel], binding.Labels[KindLabel] = grant.Kind, grant.Kind
	_, err = w.role(ctx, role)
	if err == nil {
		err = w.bindingIn(ctx, binding)
	}
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false, nil
	}
	return err == nil, err
}

func (w *Writer) bindingIn(ctx context.Context, binding *rbacv1.RoleBinding) error {
	return write(ctx, w.client.RbacV1().RoleBindings(binding.Namespace), binding, func(old *rbacv1.RoleBinding) difference {
		switch {
		case !equality.Semantic.DeepEqual(old.RoleRef, binding.RoleRef):
			return replaced // what a binding refers to cannot be changed
		case !equality.Semantic.DeepEqual(old.Subjects, binding.Subjects):
			return updated
		}
		return none
	})
}

// objects are the calls of a client that write uses.
type objects[T any] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, o metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// difference is what has to be done to an object for it to be as wanted.
type difference int

const (
	none difference = iota
	updated
	replaced // deleted and created
)

// write makes an object as it is wanted. The label of the kind is compared here,
// the rest by compare.
func write[T metav1.Object](ctx context.Context, client objects[T], want T, compare func(old T) difference) error {
	old, err := client.Get(ctx, want.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, want, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	change := compare(old)
	if change == none && old.GetLabels()[KindLabel] != want.GetLabels()[KindLabel] {
		change = updated
	}
	switch change {
	case updated:
		want.SetResourceVersion(old.GetResourceVersion())
		_, err = client.Update(ctx, want, metav1.UpdateOptions{})
	case replaced:
		if err = client.Delete(ctx, want.GetName(), metav1.DeleteOptions{}); err == nil || apierrors.IsNotFound(err) {
			_, err = client.Create(ctx, want, metav1.CreateOptions{})
		}
	}
	return err
}
