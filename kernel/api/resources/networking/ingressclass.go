package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
)

// maxControllerLength bounds the name of a class's controller.
const maxControllerLength = 250

func ingressClassKind() resources.Kind {
	gvk := networkingv1.SchemeGroupVersion.WithKind("IngressClass")
	return resources.Kind{
		GVK: gvk, Resource: "ingressclasses", Singular: "ingressclass",
		New:     func() runtime.Object { return &networkingv1.IngressClass{} },
		NewList: func() runtime.Object { return &networkingv1.IngressClassList{} },
		Strategy: resources.Rules[*networkingv1.IngressClass]{
			GVK:           gvk,
			PrepareCreate: func(o *networkingv1.IngressClass) { o.Generation = 1 },
			PrepareUpdate: func(o, old *networkingv1.IngressClass) {
				if !apiequality.Semantic.DeepEqual(o.Spec, old.Spec) {
					o.Generation = old.Generation + 1
				}
			},
			Validate: validateIngressClass,
			ValidateUpdate: func(o, old *networkingv1.IngressClass) field.ErrorList {
				errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
				errs = append(errs, apivalidation.ValidateImmutableField(o.Spec.Controller, old.Spec.Controller, specPath.Child("controller"))...)
				return append(errs, validateIngressClass(o)...)
			},
		}.Strategy(),
		Columns: []metav1.TableColumnDefinition{
			resources.NameColumn(),
			resources.StringColumn("Controller", "Controller that is responsible for handling this class"),
			resources.StringColumn("Parameters", "A reference to a resource with additional parameters"),
			resources.AgeColumn(),
		},
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*networkingv1.IngressClass)
			name, parameters := o.Name, none
			if o.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
				name += " (default)"
			}
			if p := o.Spec.Parameters; p != nil {
				parameters = p.Kind
				if p.APIGroup != nil {
					parameters += "." + *p.APIGroup
				}
				parameters += "/" + p.Name
			}
			return []any{name, o.Spec.Controller, parameters, resources.AgeCell(o.CreationTimestamp)}, nil
		},
	}
}

func setIngressClassDefaults(o *networkingv1.IngressClass) {
	if p := o.Spec.Parameters; p != nil && p.Scope == nil {
		p.Scope = ptr.To(networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

func validateIngressClass(o *networkingv1.IngressClass) field.ErrorList {
	errs := resources.ValidateMeta(&o.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
	controller := specPath.Child("controller")
	if len(o.Spec.Controller) > maxControllerLength {
		errs = append(errs, field.TooLong(controller, "", maxControllerLength))
	}
	errs = append(errs, validation.IsDomainPrefixedPath(controller, o.Spec.Controller)...)
	if o.Spec.Parameters != nil {
		errs = append(errs, validateClassParameters(o.Spec.Parameters, specPath.Child("parameters"))...)
	}
	return errs
}

func validateClassParameters(p *networkingv1.IngressClassParametersReference, path *field.Path) field.ErrorList {
	errs := validateReference(p.APIGroup, p.Kind, p.Name, path)
	scope, namespace := path.Child("scope"), path.Child("namespace")
	switch {
	case p.Scope == nil:
		errs = append(errs, field.Required(scope, ""))
	case *p.Scope == networkingv1.IngressClassParametersReferenceScopeNamespace:
		if p.Namespace == nil {
			errs = append(errs, field.Required(namespace, "`parameters.scope` is set to 'Namespace'"))
		} else {
			errs = append(errs, invalid(namespace, *p.Namespace, apivalidation.ValidateNamespaceName(*p.Namespace, false))...)
		}
	case *p.Scope == networkingv1.IngressClassParametersReferenceScopeCluster:
		if p.Namespace != nil {
			errs = append(errs, field.Forbidden(namespace, "`parameters.scope` is set to 'Cluster'"))
		}
	default:
		errs = append(errs, field.NotSupported(scope, *p.Scope, []string{
			networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace}))
	}
	return errs
}
