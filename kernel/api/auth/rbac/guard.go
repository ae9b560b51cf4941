package rbac

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

var errNoUser = errors.New("no user on request")

// Guard keeps a user from granting what they do not have: who writes a role
// must hold its rules (or may "escalate" it), who writes a binding must hold
// the rules of its role (or may "bind" it).
type Guard struct {
	authorizer authorizer.Authorizer
	index      *Index
	roles      rbacclient.RbacV1Interface
}

// NewGuard returns a guard. client reads a role that the index does not know
// yet, so that a binding may follow its role at once.
func NewGuard(index *Index, authz authorizer.Authorizer, client rbacclient.RbacV1Interface) *Guard {
	return &Guard{authorizer: authz, index: index, roles: client}
}

// Install puts the guard before the writes of the store of one of the four
// kinds. Hooks already there run after the guard's check.
func (g *Guard) Install(store *genericregistry.Store) {
	create, update := store.BeginCreate, store.BeginUpdate
	store.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		if err := g.Check(ctx, obj, nil); err != nil {
			return nil, err
		}
		if create == nil {
			return func(context.Context, bool) {}, nil
		}
		return create(ctx, obj, options)
	}
	store.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, options *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
		if err := g.Check(ctx, obj, old); err != nil {
			return nil, err
		}
		if update == nil {
			return func(context.Context, bool) {}, nil
		}
		return update(ctx, obj, old, options)
	}
}

// Check returns a Forbidden error when the request's user may not write obj;
// old is nil for a create.
func (g *Guard) Check(ctx context.Context, obj, old runtime.Object) error {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(errNoUser)
	}
	if superuser(who) || old != nil && onlyGarbageCollection(obj, old) {
		return nil
	}
	switch o := obj.(type) {
	case *rbacv1.Role:
		if g.mayEscalate(ctx) {
			return nil
		}
		return forbidden("roles", o.Name, g.confirm(ctx, o.Namespace, o.Rules))
	case *rbacv1.ClusterRole:
		if g.mayEscalate(ctx) {
			return nil
		}
		if err := g.confirm(ctx, "", o.Rules); err != nil {
			return forbidden("clusterroles", o.Name, err)
		}
		before, _ := old.(*rbacv1.ClusterRole)
		// An aggregation can gather anything, and hides what it is narrowed to.
		if (aggregates(o) || before != nil && aggregates(before)) && g.confirm(ctx, "", fullAuthority()) != nil {
			return forbidden("clusterroles", o.Name, errors.New("must have cluster-admin privileges to use the aggregationRule"))
		}
		return nil
	case *rbacv1.RoleBinding:
		return g.checkBinding(ctx, "rolebindings", o.Name, o.Namespace, o.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		return g.checkBinding(ctx, "clusterrolebindings", o.Name, "", o.RoleRef)
	}
	return apierrors.NewInternalError(fmt.Errorf("rbac guard: unexpected type %T", obj))
}

func (g *Guard) checkBinding(ctx context.Context, resource, name, namespace string, ref rbacv1.RoleRef) error {
	if g.mayBind(ctx, namespace, ref) {
		return nil
	}
	rules, err := g.referenced(ctx, ref, namespace)
	if err != nil {
		return err
	}
	return forbidden(resource, name, g.confirm(ctx, namespace, rules))
}

func (g *Guard) referenced(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	g.index.mu.RLock()
	rules, err := g.index.rulesOf(ref, namespace)
	g.index.mu.RUnlock()
	if err == nil || !apierrors.IsNotFound(err) || g.roles == nil {
		return rules, err
	}
	if ref.Kind == "Role" {
		role, err := g.roles.Roles(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	}
	role, err := g.roles.ClusterRoles().Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return role.Rules, nil
}

// confirm returns an error that lists what of rules the user does not hold.
func (g *Guard) confirm(ctx context.Context, namespace string, rules []rbacv1.PolicyRule) error {
	who, _ := request.UserFrom(ctx)
	held, err := g.index.rulesFor(who, namespace)
	covered, missing := validation.Covers(held, rules)
	if covered {
		return nil
	}
	lines := make([]string, 0, len(missing))
	for _, rule := range compact(missing) {
		lines = append(lines, describe(rule))
	}
	slices.Sort(lines)
	message := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		who.GetName(), who.GetGroups(), strings.Join(slices.Compact(lines), "\n"))
	if err != nil {
		message += fmt.Sprintf("; resolution errors: %v", []error{err})
	}
	return errors.New(message)
}

func (g *Guard) mayEscalate(ctx context.Context) bool {
	who, _ := request.UserFrom(ctx)
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || !info.IsResourceRequest || info.APIGroup != rbacv1.GroupName ||
		info.Resource != "roles" && info.Resource != "clusterroles" {
		return false
	}
	return g.allowed(ctx, authorizer.AttributesRecord{
		User: who, Verb: "escalate", APIGroup: info.APIGroup, APIVersion: "*", Resource: info.Resource,
		Name: info.Name, Namespace: info.Namespace, ResourceRequest: true,
	})
}

func (g *Guard) mayBind(ctx context.Context, namespace string, ref rbacv1.RoleRef) bool {
	who, _ := request.UserFrom(ctx)
	resource, ok := map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[ref.Kind]
	return ok && g.allowed(ctx, authorizer.AttributesRecord{
		User: who, Verb: "bind", APIGroup: ref.APIGroup, APIVersion: "*", Resource: resource,
		Name: ref.Name, Namespace: namespace, ResourceRequest: true,
	})
}

func (g *Guard) allowed(ctx context.Context, attributes authorizer.AttributesRecord) bool {
	decision, _, _ := g.authorizer.Authorize(ctx, attributes) // an error beside no decision means no
	return decision == authorizer.DecisionAllow
}

func forbidden(resource, name string, err error) error {
	if err == nil {
		return nil
	}
	return apierrors.NewForbidden(rbacv1.Resource(resource), name, err)
}

func aggregates(role *rbacv1.ClusterRole) bool {
	return role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

// onlyGarbageCollection says whether obj differs from old only in what the
// garbage collector writes.
func onlyGarbageCollection(obj, old runtime.Object) bool {
	if v := reflect.ValueOf(old); v.Kind() == reflect.Pointer && v.IsNil() {
		return false
	}
	copied := obj.DeepCopyObject()
	a, err := meta.Accessor(copied)
	if err != nil {
		return false
	}
	b, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	a.SetOwnerReferences(b.GetOwnerReferences())
	a.SetFinalizers(b.GetFinalizers())
	a.SetManagedFields(b.GetManagedFields())
	return equality.Semantic.DeepEqual(copied, old)
}

// compact joins rules that differ in their verbs only, as Covers splits them.
func compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	at := map[string]int{}
	for _, rule := range rules {
		if len(rule.ResourceNames) > 1 || len(rule.NonResourceURLs) > 0 || len(rule.APIGroups) != 1 || len(rule.Resources) != 1 {
			out = append(out, rule)
			continue
		}
		verbs := rule.Verbs
		rule.Verbs = nil
		key := describe(rule)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, rule)
		}
		out[i].Verbs = append(out[i].Verbs, verbs...)
	}
	return out
}

// describe is the form of a rule in escalation errors.
func describe(rule rbacv1.PolicyRule) string {
	var parts []string
	for _, field := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", rule.APIGroups}, {"Resources", rule.Resources}, {"NonResourceURLs", rule.NonResourceURLs},
		{"ResourceNames", rule.ResourceNames}, {"Verbs", rule.Verbs},
	} {
		if len(field.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", field.name, field.values))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
