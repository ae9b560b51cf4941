package admissionregistration

import (
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
)

var (
	sideEffects     = []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun, admissionv1.SideEffectClassSome, admissionv1.SideEffectClassUnknown}
	noSideEffects   = sideEffects[:2]
	reviewVersions  = []string{"v1", "v1beta1"}
	metadataPath    = field.NewPath("metadata")
	webhooksPath    = field.NewPath("webhooks")
	minTimeout      = int32(1)
	maxTimeout      = int32(30)
	timeoutTooLong  = "the timeout value must be between 1 and 30 seconds"
	oneOfBothWanted = "exactly one of url or service is required"
)

// webhook is one of either kind; what only those have that change objects is apart.
type webhook struct {
	admissionv1.ValidatingWebhook
	reinvocation *admissionv1.ReinvocationPolicyType
}

func validatingWebhooks(o *admissionv1.ValidatingWebhookConfiguration) []webhook {
	out := make([]webhook, len(o.Webhooks))
	for i, w := range o.Webhooks {
		out[i] = webhook{ValidatingWebhook: w}
	}
	return out
}

func mutatingWebhooks(o *admissionv1.MutatingWebhookConfiguration) []webhook {
	out := make([]webhook, len(o.Webhooks))
	for i, w := range o.Webhooks {
		out[i] = webhook{admissionv1.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		}, w.ReinvocationPolicy}
	}
	return out
}

// validateWebhooks checks a configuration. old are the webhooks before; nil in an
// update that had none, and in a create. What was wrong before rules came may stay so.
func validateWebhooks(meta *metav1.ObjectMeta, now, old []webhook, update bool) field.ErrorList {
	errs := validation.ValidateObjectMeta(meta, false, validation.NameIsDNSSubdomain, metadataPath)
	l := lenience{}
	if update {
		l = lenienceOf(now, old)
	}
	names := map[string]bool{}
	for i := range now {
		w, path := &now[i], webhooksPath.Index(i)
		errs = append(errs, w.validate(path, l)...)
		errs = append(errs, validateReviewVersions(w.AdmissionReviewVersions, l.unknownVersions, path.Child("admissionReviewVersions"))...)
		if w.Name == "" || l.sameNames {
			continue
		}
		if names[w.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), w.Name))
		}
		names[w.Name] = true
	}
	return errs
}

// lenience is what an update may leave as it was.
type lenience struct {
	sideEffects, unknownVersions, sameNames, selectors, conditions bool
	stored                                                         expressions
}

func lenienceOf(now, old []webhook) lenience {
	l := lenience{conditions: len(now) == len(old), stored: expressions{}}
	names := map[string]bool{}
	for i, w := range old {
		l.sideEffects = l.sideEffects || w.SideEffects == nil || !slices.Contains(noSideEffects, *w.SideEffects)
		l.unknownVersions = l.unknownVersions || len(w.AdmissionReviewVersions) > 0 && !slices.ContainsFunc(w.AdmissionReviewVersions, isReviewVersion)
		l.sameNames = l.sameNames || names[w.Name]
		names[w.Name] = true
		for _, s := range []*metav1.LabelSelector{w.NamespaceSelector, w.ObjectSelector} {
			l.selectors = l.selectors || s != nil && len(validateSelector(s, nil, false)) > 0
		}
		l.conditions = l.conditions && reflect.DeepEqual(now[i].MatchConditions, w.MatchConditions)
		for _, c := range w.MatchConditions {
			l.stored.add(inMatchCondition, c.Expression)
		}
	}
	return l
}

func isReviewVersion(v string) bool { return slices.Contains(reviewVersions, v) }

func (w *webhook) validate(path *field.Path, l lenience) field.ErrorList {
	errs := utilvalidation.IsFullyQualifiedName(path.Child("name"), w.Name)
	for i := range w.Rules {
		errs = append(errs, validateRule(&w.Rules[i], path.Child("rules").Index(i))...)
	}
	errs = append(errs, optionalOneOf(path.Child("failurePolicy"), w.FailurePolicy, failurePolicies)...)
	errs = append(errs, optionalOneOf(path.Child("matchPolicy"), w.MatchPolicy, matchPolicies)...)
	allowed := noSideEffects
	if l.sideEffects {
		allowed = sideEffects
	}
	if w.SideEffects == nil {
		words := make([]string, len(allowed))
		for i, c := range allowed {
			words[i] = string(c)
		}
		errs = append(errs, field.Required(path.Child("sideEffects"), "must specify one of "+strings.Join(words, ", ")))
	} else {
		errs = append(errs, oneOf(path.Child("sideEffects"), *w.SideEffects, allowed)...)
	}
	if t := w.TimeoutSeconds; t != nil && (*t < minTimeout || *t > maxTimeout) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *t, timeoutTooLong))
	}
	if w.NamespaceSelector != nil {
		errs = append(errs, validateSelector(w.NamespaceSelector, path.Child("namespaceSelector"), l.selectors)...)
	}
	if w.ObjectSelector != nil {
		errs = append(errs, validateSelector(w.ObjectSelector, path.Child("objectSelector"), l.selectors)...)
	}
	errs = append(errs, optionalOneOf(path.Child("reinvocationPolicy"), w.reinvocation, reinvocationPolicies)...)
	errs = append(errs, validateClient(&w.ClientConfig, path.Child("clientConfig"))...)
	if !l.conditions {
		errs = append(errs, validateMatchConditions(w.MatchConditions, false, l.stored, path.Child("matchConditions"))...)
	}
	return errs
}

func validateClient(c *admissionv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(path, oneOfBothWanted)}
	case c.URL != nil:
		return webhookutil.ValidateWebhookURL(path.Child("url"), *c.URL, true)
	}
	port := int32(defaultServicePort)
	if c.Service.Port != nil {
		port = *c.Service.Port
	}
	return webhookutil.ValidateWebhookService(path.Child("service"), c.Service.Name, c.Service.Namespace, c.Service.Path, port)
}

func validateReviewVersions(versions []string, unknown bool, path *field.Path) field.ErrorList {
	words := strings.Join(reviewVersions, ", ")
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of "+words)}
	}
	var errs field.ErrorList
	seen, known := map[string]bool{}, false
	for i, v := range versions {
		if seen[v] {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		seen[v] = true
		for _, words := range utilvalidation.IsDNS1035Label(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, words))
		}
		known = known || isReviewVersion(v)
	}
	if !known && !unknown {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of "+words))
	}
	return errs
}
