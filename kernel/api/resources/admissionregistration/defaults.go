package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	defaultTimeoutSeconds = 10
	defaultServicePort    = 443
)

// AddToScheme registers the defaulting functions of the kinds and of their lists.
func AddToScheme(s *runtime.Scheme) error {
	addDefaults(s, setValidatingWebhooksDefaults, func(l *admissionv1.ValidatingWebhookConfigurationList) []admissionv1.ValidatingWebhookConfiguration {
		return l.Items
	})
	addDefaults(s, setMutatingWebhooksDefaults, func(l *admissionv1.MutatingWebhookConfigurationList) []admissionv1.MutatingWebhookConfiguration {
		return l.Items
	})
	addDefaults(s, setValidatingPolicyDefaults, func(l *admissionv1.ValidatingAdmissionPolicyList) []admissionv1.ValidatingAdmissionPolicy {
		return l.Items
	})
	addDefaults(s, setValidatingBindingDefaults, func(l *admissionv1.ValidatingAdmissionPolicyBindingList) []admissionv1.ValidatingAdmissionPolicyBinding {
		return l.Items
	})
	addDefaults(s, setMutatingPolicyDefaults, func(l *admissionv1.MutatingAdmissionPolicyList) []admissionv1.MutatingAdmissionPolicy { return l.Items })
	addDefaults(s, setMutatingBindingDefaults, func(l *admissionv1.MutatingAdmissionPolicyBindingList) []admissionv1.MutatingAdmissionPolicyBinding {
		return l.Items
	})
	return nil
}

// pointer is to an API type.
type pointer[T any] interface {
	*T
	runtime.Object
}

// addDefaults registers set for a kind and for each item of its list.
func addDefaults[T, L any, P pointer[T], Q pointer[L]](s *runtime.Scheme, set func(P), items func(Q) []T) {
	s.AddTypeDefaultingFunc(P(new(T)), func(obj any) { set(obj.(P)) })
	s.AddTypeDefaultingFunc(Q(new(L)), func(obj any) {
		list := items(obj.(Q))
		for i := range list {
			set(P(&list[i]))
		}
	})
}

// orElse sets what p leads to where it leads nowhere.
func orElse[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

func setValidatingWebhooksDefaults(o *admissionv1.ValidatingWebhookConfiguration) {
	for i := range o.Webhooks {
		w := &o.Webhooks[i]
		setClientDefaults(&w.ClientConfig)
		orElse(&w.FailurePolicy, admissionv1.Fail)
		orElse(&w.MatchPolicy, admissionv1.Equivalent)
		orElse(&w.NamespaceSelector, metav1.LabelSelector{})
		orElse(&w.ObjectSelector, metav1.LabelSelector{})
		orElse(&w.TimeoutSeconds, defaultTimeoutSeconds)
		setRulesDefaults(w.Rules)
	}
}

func setMutatingWebhooksDefaults(o *admissionv1.MutatingWebhookConfiguration) {
	for i := range o.Webhooks {
		w := &o.Webhooks[i]
		setClientDefaults(&w.ClientConfig)
		orElse(&w.FailurePolicy, admissionv1.Fail)
		orElse(&w.MatchPolicy, admissionv1.Equivalent)
		orElse(&w.NamespaceSelector, metav1.LabelSelector{})
		orElse(&w.ObjectSelector, metav1.LabelSelector{})
		orElse(&w.TimeoutSeconds, defaultTimeoutSeconds)
		orElse(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
		setRulesDefaults(w.Rules)
	}
}

func setClientDefaults(c *admissionv1.WebhookClientConfig) {
	if c.Service != nil {
		orElse(&c.Service.Port, defaultServicePort)
	}
}

func setRulesDefaults(rules []admissionv1.RuleWithOperations) {
	for i := range rules {
		orElse(&rules[i].Scope, admissionv1.AllScopes)
	}
}

func setMatchDefaults(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	orElse(&m.MatchPolicy, admissionv1.Equivalent)
	orElse(&m.NamespaceSelector, metav1.LabelSelector{})
	orElse(&m.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			orElse(&rules[i].Scope, admissionv1.AllScopes)
		}
	}
}

func setValidatingPolicyDefaults(o *admissionv1.ValidatingAdmissionPolicy) {
	orElse(&o.Spec.FailurePolicy, admissionv1.Fail)
	setMatchDefaults(o.Spec.MatchConstraints)
}

func setValidatingBindingDefaults(o *admissionv1.ValidatingAdmissionPolicyBinding) {
	setMatchDefaults(o.Spec.MatchResources)
}

func setMutatingPolicyDefaults(o *admissionv1.MutatingAdmissionPolicy) {
	orElse(&o.Spec.FailurePolicy, admissionv1.Fail)
	setMatchDefaults(o.Spec.MatchConstraints)
}

func setMutatingBindingDefaults(o *admissionv1.MutatingAdmissionPolicyBinding) {
	setMatchDefaults(o.Spec.MatchResources)
}
