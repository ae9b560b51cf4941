package resources

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// binding is what RoleBinding and ClusterRoleBinding have in common. kinds are
// the kinds that its roleRef may name.
type binding struct {
	meta       *metav1.ObjectMeta
	subjects   []rbacv1.Subject
	roleRef    *rbacv1.RoleRef
	namespaced bool
	kinds      []string
}

func bindingOf(obj runtime.Object) binding {
	switch o := obj.(type) {
	case *rbacv1.RoleBinding:
		return binding{&o.ObjectMeta, o.Subjects, &o.RoleRef, true, []string{"Role", "ClusterRole"}}
	case *rbacv1.ClusterRoleBinding:
		return binding{&o.ObjectMeta, o.Subjects, &o.RoleRef, false, []string{"ClusterRole"}}
	}
	return binding{}
}

func roleBindingKind() Kind {
	k := bindingKind[*rbacv1.RoleBinding]("RoleBinding", true, "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.", "roleBinding")
	k.Resource, k.Singular = "rolebindings", "rolebinding"
	k.New = func() runtime.Object { return &rbacv1.RoleBinding{} }
	k.NewList = func() runtime.Object { return &rbacv1.RoleBindingList{} }
	return k
}

func clusterRoleBindingKind() Kind {
	k := bindingKind[*rbacv1.ClusterRoleBinding]("ClusterRoleBinding", false, "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.", "clusterRoleBinding")
	k.Resource, k.Singular = "clusterrolebindings", "clusterrolebinding"
	k.New = func() runtime.Object { return &rbacv1.ClusterRoleBinding{} }
	k.NewList = func() runtime.Object { return &rbacv1.ClusterRoleBindingList{} }
	return k
}

func bindingKind[T runtime.Object](kind string, namespaced bool, roleRefDoc, where string) Kind {
	gvk := rbacv1.SchemeGroupVersion.WithKind(kind)
	return Kind{
		GVK: gvk,
		Strategy: &rules[T]{
			base:           base{gvk: gvk, namespaced: namespaced, createOnUpdate: true},
			validate:       func(o T) field.ErrorList { return bindingOf(o).validate() },
			validateUpdate: func(o, old T) field.ErrorList { return bindingOf(o).validateUpdate(bindingOf(old)) },
		},
		Columns: cols(nameColumn(), stringColumn("Role", roleRefDoc), ageColumn(),
			wideColumn("Users", "Users in the "+where), wideColumn("Groups", "Groups in the "+where),
			wideColumn("ServiceAccounts", "ServiceAccounts in the "+where)),
		Row: func(obj runtime.Object) ([]any, error) {
			b := bindingOf(obj)
			var users, groups, accounts []string
			for _, s := range b.subjects {
				switch s.Kind {
				case rbacv1.UserKind:
					users = append(users, s.Name)
				case rbacv1.GroupKind:
					groups = append(groups, s.Name)
				case rbacv1.ServiceAccountKind:
					accounts = append(accounts, s.Namespace+"/"+s.Name)
				}
			}
			return []any{b.meta.Name, b.roleRef.Kind + "/" + b.roleRef.Name, ageCell(b.meta.CreationTimestamp),
				strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", ")}, nil
		},
	}
}

func setRoleBindingDefaults(o *rbacv1.RoleBinding) { setBindingDefaults(&o.RoleRef, o.Subjects) }

func setClusterRoleBindingDefaults(o *rbacv1.ClusterRoleBinding) {
	setBindingDefaults(&o.RoleRef, o.Subjects)
}

func setBindingDefaults(ref *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	if ref.APIGroup == "" {
		ref.APIGroup = rbacv1.GroupName
	}
	for i := range subjects {
		if s := &subjects[i]; s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
	}
}

func (b binding) validate() field.ErrorList {
	errs := validateMeta(b.meta, b.namespaced, rbacName)
	path := field.NewPath("roleRef")
	if b.roleRef.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(path.Child("apiGroup"), b.roleRef.APIGroup, []string{rbacv1.GroupName}))
	}
	if !slices.Contains(b.kinds, b.roleRef.Kind) {
		errs = append(errs, field.NotSupported(path.Child("kind"), b.roleRef.Kind, b.kinds))
	}
	if b.roleRef.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		for _, msg := range rbacName(b.roleRef.Name, false) {
			errs = append(errs, field.Invalid(path.Child("name"), b.roleRef.Name, msg))
		}
	}
	for i, s := range b.subjects {
		errs = append(errs, validateSubject(s, b.namespaced, field.NewPath("subjects").Index(i))...)
	}
	return errs
}

func (b binding) validateUpdate(old binding) field.ErrorList {
	errs := append(b.validate(), validateMetaUpdate(b.meta, old.meta)...)
	if *b.roleRef != *old.roleRef {
		errs = append(errs, field.Invalid(field.NewPath("roleRef"), *b.roleRef, "cannot change roleRef"))
	}
	return errs
}

func validateSubject(s rbacv1.Subject, namespaced bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			for _, msg := range apivalidation.ValidateServiceAccountName(s.Name, false) {
				errs = append(errs, field.Invalid(path.Child("name"), s.Name, msg))
			}
		}
		if s.APIGroup != "" {
			errs = append(errs, field.NotSupported(path.Child("apiGroup"), s.APIGroup, []string{""}))
		}
		if !namespaced && s.Namespace == "" {
			errs = append(errs, field.Required(path.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		if s.APIGroup != rbacv1.GroupName {
			errs = append(errs, field.NotSupported(path.Child("apiGroup"), s.APIGroup, []string{rbacv1.GroupName}))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("kind"), s.Kind, []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	return errs
}
