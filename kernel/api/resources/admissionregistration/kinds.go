package admissionregistration

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pintle.dev/pintle/kernel/api/resources"
)

// categories are those of all kinds of the group.
var categories = []string{"api-extensions"}

// Kinds lists the served kinds.
func Kinds() []resources.Kind {
	return []resources.Kind{
		validatingWebhookKind(), mutatingWebhookKind(),
		validatingPolicyKind(), validatingBindingKind(), mutatingPolicyKind(), mutatingBindingKind(),
	}
}

func validatingWebhookKind() resources.Kind {
	gvk := admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration")
	return resources.Kind{
		GVK: gvk, Resource: "validatingwebhookconfigurations", Singular: "validatingwebhookconfiguration", Categories: categories,
		New:     func() runtime.Object { return &admissionv1.ValidatingWebhookConfiguration{} },
		NewList: func() runtime.Object { return &admissionv1.ValidatingWebhookConfigurationList{} },
		Strategy: strategy[*admissionv1.ValidatingWebhookConfiguration]{
			gvk: gvk, wanted: func(o *admissionv1.ValidatingWebhookConfiguration) any { return o.Webhooks },
			validate: func(o, old *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
				if old == nil {
					return validateWebhooks(&o.ObjectMeta, validatingWebhooks(o), nil, false)
				}
				return validateWebhooks(&o.ObjectMeta, validatingWebhooks(o), validatingWebhooks(old), true)
			},
		},
		Columns: webhookColumns(),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*admissionv1.ValidatingWebhookConfiguration)
			return []any{o.Name, int64(len(o.Webhooks)), age(o.CreationTimestamp)}, nil
		},
	}
}

func mutatingWebhookKind() resources.Kind {
	gvk := admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration")
	return resources.Kind{
		GVK: gvk, Resource: "mutatingwebhookconfigurations", Singular: "mutatingwebhookconfiguration", Categories: categories,
		New:     func() runtime.Object { return &admissionv1.MutatingWebhookConfiguration{} },
		NewList: func() runtime.Object { return &admissionv1.MutatingWebhookConfigurationList{} },
		Strategy: strategy[*admissionv1.MutatingWebhookConfiguration]{
			gvk: gvk, wanted: func(o *admissionv1.MutatingWebhookConfiguration) any { return o.Webhooks },
			validate: func(o, old *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
				if old == nil {
					return validateWebhooks(&o.ObjectMeta, mutatingWebhooks(o), nil, false)
				}
				return validateWebhooks(&o.ObjectMeta, mutatingWebhooks(o), mutatingWebhooks(old), true)
			},
		},
		Columns: webhookColumns(),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*admissionv1.MutatingWebhookConfiguration)
			return []any{o.Name, int64(len(o.Webhooks)), age(o.CreationTimestamp)}, nil
		},
	}
}

func validatingPolicyKind() resources.Kind {
	gvk := admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy")
	main := strategy[*admissionv1.ValidatingAdmissionPolicy]{
		gvk: gvk, wanted: func(o *admissionv1.ValidatingAdmissionPolicy) any { return o.Spec },
		validate: validateValidatingPolicy,
		status: func(o, from *admissionv1.ValidatingAdmissionPolicy) {
			o.Status = admissionv1.ValidatingAdmissionPolicyStatus{}
			if from != nil {
				o.Status = from.Status
			}
		},
	}
	return resources.Kind{
		GVK: gvk, Resource: "validatingadmissionpolicies", Singular: "validatingadmissionpolicy", Categories: categories,
		New:      func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicy{} },
		NewList:  func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyList{} },
		Strategy: main,
		Status:   statusStrategy{main},
		Columns:  policyColumns("Validations", "Validations indicates the number of validation rules defined in this configuration"),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*admissionv1.ValidatingAdmissionPolicy)
			return []any{o.Name, int64(len(o.Spec.Validations)), paramKind(o.Spec.ParamKind), age(o.CreationTimestamp)}, nil
		},
	}
}

func validatingBindingKind() resources.Kind {
	gvk := admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding")
	return resources.Kind{
		GVK: gvk, Resource: "validatingadmissionpolicybindings", Singular: "validatingadmissionpolicybinding", Categories: categories,
		New:     func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyBinding{} },
		NewList: func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyBindingList{} },
		Strategy: strategy[*admissionv1.ValidatingAdmissionPolicyBinding]{
			gvk: gvk, wanted: func(o *admissionv1.ValidatingAdmissionPolicyBinding) any { return o.Spec },
			validate: func(o, _ *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
				return validateValidatingBinding(o)
			},
		},
		Columns: bindingColumns(),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*admissionv1.ValidatingAdmissionPolicyBinding)
			return []any{o.Name, o.Spec.PolicyName, paramRef(o.Spec.ParamRef), age(o.CreationTimestamp)}, nil
		},
	}
}

func mutatingPolicyKind() resources.Kind {
	gvk := admissionv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy")
	return resources.Kind{
		GVK: gvk, Resource: "mutatingadmissionpolicies", Singular: "mutatingadmissionpolicy", Categories: categories,
		New:     func() runtime.Object { return &admissionv1.MutatingAdmissionPolicy{} },
		NewList: func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyList{} },
		Strategy: strategy[*admissionv1.MutatingAdmissionPolicy]{
			gvk: gvk, wanted: func(o *admissionv1.MutatingAdmissionPolicy) any { return o.Spec },
			validate: validateMutatingPolicy,
		},
		Columns: policyColumns("Mutations", "Mutation indicates the number of mutations rules defined in this configuration"),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*admissionv1.MutatingAdmissionPolicy)
			return []any{o.Name, int64(len(o.Spec.Mutations)), paramKind(o.Spec.ParamKind), age(o.CreationTimestamp)}, nil
		},
	}
}

func mutatingBindingKind() resources.Kind {
	gvk := admissionv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding")
	return resources.Kind{
		GVK: gvk, Resource: "mutatingadmissionpolicybindings", Singular: "mutatingadmissionpolicybinding", Categories: categories,
		New:     func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyBinding{} },
		NewList: func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyBindingList{} },
		Strategy: strategy[*admissionv1.MutatingAdmissionPolicyBinding]{
			gvk: gvk, wanted: func(o *admissionv1.MutatingAdmissionPolicyBinding) any { return o.Spec },
			validate: func(o, _ *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
				return validateMutatingBinding(o)
			},
		},
		Columns: bindingColumns(),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*admissionv1.MutatingAdmissionPolicyBinding)
			return []any{o.Name, o.Spec.PolicyName, paramRef(o.Spec.ParamRef), age(o.CreationTimestamp)}, nil
		},
	}
}

var metaDoc = metav1.ObjectMeta{}.SwaggerDoc()

// columns are those given between the name and the age.
func columns(between ...metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	out := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: metaDoc["name"]}}
	return append(append(out, between...), metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: metaDoc["creationTimestamp"]})
}

func webhookColumns() []metav1.TableColumnDefinition {
	return columns(metav1.TableColumnDefinition{Name: "Webhooks", Type: "integer",
		Description: "Webhooks indicates the number of webhooks registered in this configuration"})
}

func policyColumns(rules, description string) []metav1.TableColumnDefinition {
	return columns(metav1.TableColumnDefinition{Name: rules, Type: "integer", Description: description},
		metav1.TableColumnDefinition{Name: "ParamKind", Type: "string", Description: "ParamKind specifies the kind of resources used to parameterize this policy"})
}

func bindingColumns() []metav1.TableColumnDefinition {
	return columns(metav1.TableColumnDefinition{Name: "PolicyName", Type: "string", Description: "PolicyName indicates the policy definition which the policy binding binded to"},
		metav1.TableColumnDefinition{Name: "ParamRef", Type: "string", Description: "ParamRef indicates the param resource which sets the configuration param"})
}

const unset = "<unset>"

func paramKind(k *admissionv1.ParamKind) string {
	if k == nil {
		return unset
	}
	return k.APIVersion + "/" + k.Kind
}

// paramRef shows "*" for a namespace that is not said: that of each request, or none.
func paramRef(r *admissionv1.ParamRef) string {
	switch {
	case r == nil:
		return unset
	case r.Name != "" && r.Namespace != "":
		return r.Namespace + "/" + r.Name
	case r.Name != "":
		return "*/" + r.Name
	case r.Selector != nil:
		return r.Selector.String()
	}
	return unset
}

// age is the time since t in the short form of all tables.
func age(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}
