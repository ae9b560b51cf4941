package podsecurity

import (
	"context"
	"errors"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	security "k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"
)

// Plugin checks pods and what makes pods.
type Plugin struct {
	*admission.Handler
	checks *security.Admission
}

var _ admission.ValidationInterface = (*Plugin)(nil)

// recorder counts for all servers of the process, as the API's libraries do.
var recorder = sync.OnceValue(func() *metrics.PrometheusRecorder {
	r := metrics.NewPrometheusRecorder(api.GetAPIVersion())
	r.MustRegister(legacyregistry.MustRegister)
	return r
})

// New registers the informers it needs. The configuration is of kind
// PodSecurityConfiguration, in YAML or JSON; empty: upstream's defaults.
func New(client kubernetes.Interface, factory informers.SharedInformerFactory, data []byte) (*Plugin, error) {
	configuration, err := load.LoadFromData(data)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, fmt.Errorf("checks: %w", err)
	}
	namespaces := factory.Core().V1().Namespaces()
	p := &Plugin{
		Handler: admission.NewHandler(admission.Create, admission.Update),
		checks: &security.Admission{
			Configuration:    configuration,
			Evaluator:        evaluator,
			Metrics:          recorder(),
			PodSpecExtractor: security.DefaultPodSpecExtractor{},
			NamespaceGetter:  security.NamespaceGetterFromListerAndClient(namespaces.Lister(), client),
			// Pods are listed when the level of a namespace changes, which is no
			// reason to hold all of them in memory.
			PodLister: security.PodListerFromClient(client),
		},
	}
	if err := p.checks.CompleteConfiguration(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if err := p.checks.ValidateConfiguration(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return p, nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	if resource != corev1.Resource("namespaces") && !p.checks.PodSpecExtractor.HasPodSpec(resource) {
		return nil
	}
	verdict := p.checks.Validate(ctx, attributes{a})
	for _, text := range verdict.Warnings {
		warning.AddWarning(ctx, "", text)
	}
	for key, value := range verdict.AuditAnnotations {
		audit.AddAuditAnnotation(ctx, api.AuditAnnotationPrefix+key, value)
	}
	if verdict.Allowed {
		return nil
	}
	refusal := admission.NewForbidden(a, errors.New("Not allowed by PodSecurity"))
	var status *apierrors.StatusError
	if why := verdict.Result; why != nil && errors.As(refusal, &status) {
		if why.Message != "" {
			status.ErrStatus.Message = why.Message
		}
		if why.Reason != "" {
			status.ErrStatus.Reason = why.Reason
		}
		if why.Details != nil {
			status.ErrStatus.Details = why.Details
		}
		if why.Code != 0 {
			status.ErrStatus.Code = why.Code
		}
	}
	return refusal
}

// attributes are admission attributes as the checks want them; our objects are
// the versioned ones already.
type attributes struct{ admission.Attributes }

func (a attributes) GetObject() (runtime.Object, error)    { return a.Attributes.GetObject(), nil }
func (a attributes) GetOldObject() (runtime.Object, error) { return a.Attributes.GetOldObject(), nil }
func (a attributes) GetUserName() string                   { return a.GetUserInfo().GetName() }
func (a attributes) GetOperation() admissionv1.Operation {
	return admissionv1.Operation(a.Attributes.GetOperation())
}
