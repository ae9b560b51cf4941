package rbac

import (
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Index keeps roles by name and bindings by subject. Objects are shared with
// the informers and must not be changed. It is safe for concurrent use.
type Index struct {
	mu           sync.RWMutex
	roles        map[objectKey][]rbacv1.PolicyRule
	clusterRoles map[string][]rbacv1.PolicyRule
	// bindings: namespace ("" for cluster bindings) → subject → grants by
	// binding name.
	bindings map[string]map[subjectKey][]*grant
	synced   []cache.InformerSynced
}

type objectKey struct{ namespace, name string }

// subjectKey is a user or a group; service accounts are users by their name.
type subjectKey struct {
	group bool
	name  string
}

// binding is the common part of both kinds of bindings.
type binding struct {
	namespace, name string
	ref             rbacv1.RoleRef
	subjects        []rbacv1.Subject
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{
		roles:        map[objectKey][]rbacv1.PolicyRule{},
		clusterRoles: map[string][]rbacv1.PolicyRule{},
		bindings:     map[string]map[subjectKey][]*grant{},
	}
}

// Follow feeds the index from the factory's informers; the caller starts the
// factory. Call it once.
func (x *Index) Follow(factory informers.SharedInformerFactory) error {
	kinds := factory.Rbac().V1()
	for _, informer := range []cache.SharedIndexInformer{
		kinds.ClusterRoles().Informer(), kinds.ClusterRoleBindings().Informer(),
		kinds.Roles().Informer(), kinds.RoleBindings().Informer(),
	} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { x.replace(nil, obj) },
			UpdateFunc: func(old, obj any) { x.replace(old, obj) },
			DeleteFunc: func(obj any) {
				if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = last.Obj
				}
				x.replace(obj, nil)
			},
		})
		if err != nil {
			return err
		}
		x.synced = append(x.synced, registration.HasSynced)
	}
	return nil
}

// HasSynced says whether the index holds what the first lists returned.
func (x *Index) HasSynced() bool {
	for _, synced := range x.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// Holds says whether the index has each object of the policy by its name and,
// for bindings, by its subjects. What was written before may come to it later.
func (x *Index) Holds(p Policy) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range p.ClusterRoles {
		if _, ok := x.clusterRoles[p.ClusterRoles[i].Name]; !ok {
			return false
		}
	}
	for i := range p.Roles {
		if _, ok := x.roles[objectKey{p.Roles[i].Namespace, p.Roles[i].Name}]; !ok {
			return false
		}
	}
	for i := range p.ClusterRoleBindings {
		o := &p.ClusterRoleBindings[i]
		if !x.bound(&binding{"", o.Name, o.RoleRef, o.Subjects}) {
			return false
		}
	}
	for i := range p.RoleBindings {
		o := &p.RoleBindings[i]
		if !x.bound(&binding{o.Namespace, o.Name, o.RoleRef, o.Subjects}) {
			return false
		}
	}
	return true
}

// bound needs the lock.
func (x *Index) bound(b *binding) bool {
	bySubject := x.bindings[b.namespace]
	for _, key := range b.keys() {
		if _, found := slices.BinarySearchFunc(bySubject[key], b.name, byName); !found {
			return false
		}
	}
	return true
}

// replace takes old out and obj in; either may be nil.
func (x *Index) replace(old, obj any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch o := old.(type) {
	case *rbacv1.Role:
		delete(x.roles, objectKey{o.Namespace, o.Name})
	case *rbacv1.ClusterRole:
		delete(x.clusterRoles, o.Name)
	case *rbacv1.RoleBinding:
		x.unbind(&binding{o.Namespace, o.Name, o.RoleRef, o.Subjects})
	case *rbacv1.ClusterRoleBinding:
		x.unbind(&binding{"", o.Name, o.RoleRef, o.Subjects})
	}
	switch o := obj.(type) {
	case *rbacv1.Role:
		x.roles[objectKey{o.Namespace, o.Name}] = o.Rules
	case *rbacv1.ClusterRole:
		x.clusterRoles[o.Name] = o.Rules
	case *rbacv1.RoleBinding:
		x.bind(&binding{o.Namespace, o.Name, o.RoleRef, o.Subjects})
	case *rbacv1.ClusterRoleBinding:
		x.bind(&binding{"", o.Name, o.RoleRef, o.Subjects})
	}
}

func (x *Index) bind(b *binding) {
	bySubject := x.bindings[b.namespace]
	if bySubject == nil {
		bySubject = map[subjectKey][]*grant{}
		x.bindings[b.namespace] = bySubject
	}
	for _, key := range b.keys() {
		list := bySubject[key]
		at, found := slices.BinarySearchFunc(list, b.name, byName)
		// Readers hold the lock while they walk, so in-place changes are safe.
		if found {
			list[at] = newGrant(b, key)
			continue
		}
		bySubject[key] = slices.Insert(list, at, newGrant(b, key))
	}
}

func (x *Index) unbind(b *binding) {
	bySubject := x.bindings[b.namespace]
	for _, key := range b.keys() {
		list := bySubject[key]
		at, found := slices.BinarySearchFunc(list, b.name, byName)
		if !found {
			continue
		}
		if list = slices.Delete(list, at, at+1); len(list) == 0 {
			delete(bySubject, key)
		} else {
			bySubject[key] = list
		}
	}
	if len(bySubject) == 0 {
		delete(x.bindings, b.namespace)
	}
}

func byName(g *grant, name string) int { return strings.Compare(g.binding.name, name) }

func (b *binding) keys() []subjectKey {
	keys := make([]subjectKey, 0, len(b.subjects))
	for i := range b.subjects {
		if key, ok := b.key(&b.subjects[i]); ok && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (b *binding) key(subject *rbacv1.Subject) (subjectKey, bool) {
	switch subject.Kind {
	case rbacv1.UserKind:
		return subjectKey{name: subject.Name}, true
	case rbacv1.GroupKind:
		return subjectKey{group: true, name: subject.Name}, true
	case rbacv1.ServiceAccountKind:
		namespace := subject.Namespace
		if namespace == "" {
			namespace = b.namespace
		}
		if namespace == "" {
			return subjectKey{}, false
		}
		return subjectKey{name: serviceaccount.MakeUsername(namespace, subject.Name)}, true
	}
	return subjectKey{}, false
}

// subject returns the first of the binding's subjects that has the key.
func (b *binding) subject(key subjectKey) *rbacv1.Subject {
	for i := range b.subjects {
		if k, ok := b.key(&b.subjects[i]); ok && k == key {
			return &b.subjects[i]
		}
	}
	return nil
}
