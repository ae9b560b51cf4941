package rbac

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

// visitor sees each rule that applies to a user; source says through which
// binding. A rule is nil when a binding could not be resolved. It returns
// false to stop.
type visitor func(source *grant, rule *rbacv1.PolicyRule, err error) bool

// grant is a binding seen through one of its subjects. It is made once, when
// the binding comes into the index, since each allowed request names one.
type grant struct {
	binding *binding
	key     subjectKey
	// reason describes the grant in the words of an authorization reason.
	reason string
}

func newGrant(b *binding, key subjectKey) *grant {
	subject := b.subject(key)
	who := fmt.Sprintf("%s %q", subject.Kind, subject.Name)
	if subject.Kind == rbacv1.ServiceAccountKind {
		namespace := subject.Namespace
		if namespace == "" {
			namespace = b.namespace
		}
		who = fmt.Sprintf("%s %q", subject.Kind, subject.Name+"/"+namespace)
	}
	kind, name := "ClusterRoleBinding", b.name
	if b.namespace != "" {
		kind, name = "RoleBinding", b.name+"/"+b.namespace
	}
	return &grant{binding: b, key: key, reason: fmt.Sprintf("RBAC: allowed by %s %q of %s %q to %s", kind, name, b.ref.Kind, b.ref.Name, who)}
}

// visit walks the cluster bindings of u and then those of the namespace. The
// index is locked for reading meanwhile; visitors must not write to it.
func (x *Index) visit(u user.Info, namespace string, see visitor) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.visitScope(u, "", see) || namespace == "" {
		return
	}
	x.visitScope(u, namespace, see)
}

func (x *Index) visitScope(u user.Info, scope string, see visitor) bool {
	bySubject := x.bindings[scope]
	if len(bySubject) == 0 {
		return true
	}
	if !x.visitSubject(bySubject, subjectKey{name: u.GetName()}, see) {
		return false
	}
	for _, group := range u.GetGroups() {
		if !x.visitSubject(bySubject, subjectKey{group: true, name: group}, see) {
			return false
		}
	}
	return true
}

func (x *Index) visitSubject(bySubject map[subjectKey][]*grant, key subjectKey, see visitor) bool {
	for _, source := range bySubject[key] {
		rules, err := x.rulesOf(source.binding.ref, source.binding.namespace)
		if err != nil {
			if !see(nil, nil, err) {
				return false
			}
			continue
		}
		for i := range rules {
			if !see(source, &rules[i], nil) {
				return false
			}
		}
	}
	return true
}

// rulesOf needs the lock.
func (x *Index) rulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	switch ref.Kind {
	case "Role":
		rules, ok := x.roles[objectKey{namespace, ref.Name}]
		if !ok {
			return nil, apierrors.NewNotFound(rbacv1.Resource("role"), ref.Name)
		}
		return rules, nil
	case "ClusterRole":
		rules, ok := x.clusterRoles[ref.Name]
		if !ok {
			return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrole"), ref.Name)
		}
		return rules, nil
	}
	return nil, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
}

// rulesFor returns the rules that apply to u, each binding's once, and what
// could not be resolved; the rules found are valid in any case.
func (x *Index) rulesFor(u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var (
		rules []rbacv1.PolicyRule
		errs  []error
		seen  = map[*binding]subjectKey{}
	)
	x.visit(u, namespace, func(source *grant, rule *rbacv1.PolicyRule, err error) bool {
		if err != nil {
			errs = append(errs, err)
			return true
		}
		// A binding may name the user as well as groups of theirs.
		if first, ok := seen[source.binding]; ok && first != source.key {
			return true
		}
		seen[source.binding] = source.key
		rules = append(rules, *rule)
		return true
	})
	return rules, utilerrors.NewAggregate(errs)
}
