package resources

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func namespaceKind() Kind {
	gvk := corev1.SchemeGroupVersion.WithKind("Namespace")
	b := base{gvk: gvk}
	return Kind{
		GVK: gvk, Resource: "namespaces", Singular: "namespace", ShortNames: []string{"ns"},
		New:     func() runtime.Object { return &corev1.Namespace{} },
		NewList: func() runtime.Object { return &corev1.NamespaceList{} },
		Strategy: namespaceStrategy{&rules[*corev1.Namespace]{
			base: b.resetting([]any{"status"}),
			prepareCreate: func(n *corev1.Namespace) {
				n.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
				if !slices.Contains(n.Spec.Finalizers, corev1.FinalizerKubernetes) {
					n.Spec.Finalizers = append(n.Spec.Finalizers, corev1.FinalizerKubernetes)
				}
			},
			prepareUpdate: func(n, old *corev1.Namespace) {
				n.Spec.Finalizers = old.Spec.Finalizers
				n.Status = old.Status
			},
			validate: validateNamespace,
			validateUpdate: func(n, old *corev1.Namespace) field.ErrorList {
				return append(validateNamespace(n), validateMetaUpdate(&n.ObjectMeta, &old.ObjectMeta)...)
			},
		}},
		Status: namespaceStrategy{&rules[*corev1.Namespace]{
			base:           b.resetting([]any{"spec"}),
			prepareUpdate:  func(n, old *corev1.Namespace) { n.Spec = old.Spec },
			validateUpdate: validateNamespaceStatus,
		}},
		Subresources: map[string]Strategy{"finalize": namespaceStrategy{&rules[*corev1.Namespace]{
			base:          b.resetting([]any{"status"}),
			prepareUpdate: func(n, old *corev1.Namespace) { n.Status = old.Status },
			validateUpdate: func(n, old *corev1.Namespace) field.ErrorList {
				errs := validateMetaUpdate(&n.ObjectMeta, &old.ObjectMeta)
				for i, f := range n.Spec.Finalizers {
					errs = append(errs, validateNamespaceFinalizer(string(f), specPath.Child("finalizers").Index(i))...)
				}
				return errs
			},
		}}},
		Fields: func(obj runtime.Object) fields.Set {
			n := obj.(*corev1.Namespace)
			return fields.Set{"status.phase": string(n.Status.Phase)}
		},
		FieldNames: []string{"status.phase"},
		Columns:    namespaceColumns(), Row: row(namespaceCells),
	}
}

// namespaceStrategy puts the name into a label, which selectors of other
// namespaces go by. A generated name is known at Canonicalize only.
type namespaceStrategy struct{ *rules[*corev1.Namespace] }

func (namespaceStrategy) Canonicalize(obj runtime.Object) { labelNamespace(obj.(*corev1.Namespace)) }

func setNamespaceDefaults(n *corev1.Namespace) {
	if n.Name != "" {
		labelNamespace(n)
	}
	if n.Status.Phase == "" {
		n.Status.Phase = corev1.NamespaceActive
	}
}

func labelNamespace(n *corev1.Namespace) {
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[corev1.LabelMetadataName] = n.Name
}

func validateNamespace(n *corev1.Namespace) field.ErrorList {
	errs := validateMeta(&n.ObjectMeta, false, apivalidation.ValidateNamespaceName)
	for _, f := range n.Spec.Finalizers {
		errs = append(errs, validateNamespaceFinalizer(string(f), specPath.Child("finalizers"))...)
	}
	return errs
}

func validateNamespaceFinalizer(f string, path *field.Path) field.ErrorList {
	return append(apivalidation.ValidateFinalizerName(f, path), validateCoreFinalizer(f, path)...)
}

func validateNamespaceStatus(n, old *corev1.Namespace) field.ErrorList {
	errs := validateMetaUpdate(&n.ObjectMeta, &old.ObjectMeta)
	path := statusPath.Child("Phase")
	switch phase := n.Status.Phase; {
	case n.DeletionTimestamp.IsZero() && phase != corev1.NamespaceActive:
		errs = append(errs, field.Invalid(path, phase, "may only be 'Active' if `deletionTimestamp` is empty"))
	case !n.DeletionTimestamp.IsZero() && phase != corev1.NamespaceTerminating:
		errs = append(errs, field.Invalid(path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"))
	}
	return errs
}
