package rbac

import (
	"context"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
)

// The types below let the reconciliation read from the lists of Bootstrap and
// write through the client. Their interfaces take no context, so that of the
// one Bootstrap call they live in is kept. A failed write drops the listed
// object: the next try reads the live one.

type clusterRoleClient struct {
	ctx    context.Context
	listed map[string]*rbacv1.ClusterRole
	client kubernetes.Interface
}

func (c *clusterRoleClient) Get(_, name string) (reconciliation.RuleOwner, error) {
	role, ok := c.listed[name]
	if !ok {
		return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name)
	}
	return reconciliation.ClusterRoleRuleOwner{ClusterRole: role}, nil
}

func (c *clusterRoleClient) Create(in reconciliation.RuleOwner) (reconciliation.RuleOwner, error) {
	role := in.(reconciliation.ClusterRoleRuleOwner).ClusterRole
	out, err := c.client.RbacV1().ClusterRoles().Create(c.ctx, role, metav1.CreateOptions{})
	return reconciliation.ClusterRoleRuleOwner{ClusterRole: out}, c.reload(role.Name, err)
}

func (c *clusterRoleClient) Update(in reconciliation.RuleOwner) (reconciliation.RuleOwner, error) {
	role := in.(reconciliation.ClusterRoleRuleOwner).ClusterRole
	out, err := c.client.RbacV1().ClusterRoles().Update(c.ctx, role, metav1.UpdateOptions{})
	return reconciliation.ClusterRoleRuleOwner{ClusterRole: out}, c.reload(role.Name, err)
}

func (c *clusterRoleClient) reload(name string, err error) error {
	if !raced(err) {
		return err
	}
	live, getErr := c.client.RbacV1().ClusterRoles().Get(c.ctx, name, metav1.GetOptions{})
	c.listed = map[string]*rbacv1.ClusterRole{}
	if unreadable(getErr) {
		return getErr
	}
	if getErr == nil {
		c.listed[name] = live
	}
	return err
}

type clusterBindingClient struct {
	ctx    context.Context
	listed map[string]*rbacv1.ClusterRoleBinding
	client kubernetes.Interface
}

func (c *clusterBindingClient) Get(_, name string) (reconciliation.RoleBinding, error) {
	binding, ok := c.listed[name]
	if !ok {
		return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrolebindings"), name)
	}
	return reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: binding}, nil
}

func (c *clusterBindingClient) Delete(_, name string, uid types.UID) error {
	return c.client.RbacV1().ClusterRoleBindings().Delete(c.ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
}

func (c *clusterBindingClient) Create(in reconciliation.RoleBinding) (reconciliation.RoleBinding, error) {
	binding := in.(reconciliation.ClusterRoleBindingAdapter).ClusterRoleBinding
	out, err := c.client.RbacV1().ClusterRoleBindings().Create(c.ctx, binding, metav1.CreateOptions{})
	return reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: out}, c.reload(binding.Name, err)
}

func (c *clusterBindingClient) Update(in reconciliation.RoleBinding) (reconciliation.RoleBinding, error) {
	binding := in.(reconciliation.ClusterRoleBindingAdapter).ClusterRoleBinding
	out, err := c.client.RbacV1().ClusterRoleBindings().Update(c.ctx, binding, metav1.UpdateOptions{})
	return reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: out}, c.reload(binding.Name, err)
}

func (c *clusterBindingClient) reload(name string, err error) error {
	if !raced(err) {
		return err
	}
	live, getErr := c.client.RbacV1().ClusterRoleBindings().Get(c.ctx, name, metav1.GetOptions{})
	c.listed = map[string]*rbacv1.ClusterRoleBinding{}
	if unreadable(getErr) {
		return getErr
	}
	if getErr == nil {
		c.listed[name] = live
	}
	return err
}

type roleClient struct {
	ctx    context.Context
	listed map[objectKey]*rbacv1.Role
	client kubernetes.Interface
}

func (c *roleClient) Get(namespace, name string) (reconciliation.RuleOwner, error) {
	role, ok := c.listed[objectKey{namespace, name}]
	if !ok {
		return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), name)
	}
	return reconciliation.RoleRuleOwner{Role: role}, nil
}

func (c *roleClient) Create(in reconciliation.RuleOwner) (reconciliation.RuleOwner, error) {
	role := in.(reconciliation.RoleRuleOwner).Role
	if err := ensureNamespace(c.ctx, c.client, role.Namespace); err != nil {
		return nil, err
	}
	out, err := c.client.RbacV1().Roles(role.Namespace).Create(c.ctx, role, metav1.CreateOptions{})
	return reconciliation.RoleRuleOwner{Role: out}, c.reload(role.Namespace, role.Name, err)
}

func (c *roleClient) Update(in reconciliation.RuleOwner) (reconciliation.RuleOwner, error) {
	role := in.(reconciliation.RoleRuleOwner).Role
	out, err := c.client.RbacV1().Roles(role.Namespace).Update(c.ctx, role, metav1.UpdateOptions{})
	return reconciliation.RoleRuleOwner{Role: out}, c.reload(role.Namespace, role.Name, err)
}

func (c *roleClient) reload(namespace, name string, err error) error {
	if !raced(err) {
		return err
	}
	live, getErr := c.client.RbacV1().Roles(namespace).Get(c.ctx, name, metav1.GetOptions{})
	c.listed = map[objectKey]*rbacv1.Role{}
	if unreadable(getErr) {
		return getErr
	}
	if getErr == nil {
		c.listed[objectKey{namespace, name}] = live
	}
	return err
}

type bindingClient struct {
	ctx    context.Context
	listed map[objectKey]*rbacv1.RoleBinding
	client kubernetes.Interface
}

func (c *bindingClient) Get(namespace, name string) (reconciliation.RoleBinding, error) {
	binding, ok := c.listed[objectKey{namespace, name}]
	if !ok {
		return nil, apierrors.NewNotFound(rbacv1.Resource("rolebindings"), name)
	}
	return reconciliation.RoleBindingAdapter{RoleBinding: binding}, nil
}

func (c *bindingClient) Delete(namespace, name string, uid types.UID) error {
	return c.client.RbacV1().RoleBindings(namespace).Delete(c.ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
}

func (c *bindingClient) Create(in reconciliation.RoleBinding) (reconciliation.RoleBinding, error) {
	binding := in.(reconciliation.RoleBindingAdapter).RoleBinding
	if err := ensureNamespace(c.ctx, c.client, binding.Namespace); err != nil {
		return nil, err
	}
	out, err := c.client.RbacV1().RoleBindings(binding.Namespace).Create(c.ctx, binding, metav1.CreateOptions{})
	return reconciliation.RoleBindingAdapter{RoleBinding: out}, c.reload(binding.Namespace, binding.Name, err)
}

func (c *bindingClient) Update(in reconciliation.RoleBinding) (reconciliation.RoleBinding, error) {
	binding := in.(reconciliation.RoleBindingAdapter).RoleBinding
	out, err := c.client.RbacV1().RoleBindings(binding.Namespace).Update(c.ctx, binding, metav1.UpdateOptions{})
	return reconciliation.RoleBindingAdapter{RoleBinding: out}, c.reload(binding.Namespace, binding.Name, err)
}

func (c *bindingClient) reload(namespace, name string, err error) error {
	if !raced(err) {
		return err
	}
	live, getErr := c.client.RbacV1().RoleBindings(namespace).Get(c.ctx, name, metav1.GetOptions{})
	c.listed = map[objectKey]*rbacv1.RoleBinding{}
	if unreadable(getErr) {
		return getErr
	}
	if getErr == nil {
		c.listed[objectKey{namespace, name}] = live
	}
	return err
}

// raced says that someone else wrote the object since the list.
func raced(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// unreadable says that an object is there and damaged: it was left out of the
// lists, and cannot be reconciled.
func unreadable(err error) bool {
	return apierrors.IsStoreReadError(err) || apierrors.IsInternalError(err) && strings.Contains(err.Error(), "corrupt object")
}
