package denyserviceexternalips

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
)

// Plugin refuses new external IPs.
type Plugin struct{ *admission.Handler }

var _ admission.ValidationInterface = (*Plugin)(nil)

// New returns the plugin.
func New() *Plugin { return &Plugin{admission.NewHandler(admission.Create, admission.Update)} }

// Validate implements admission.ValidationInterface.
func (*Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("services") || a.GetSubresource() != "" {
		return nil
	}
	service, ok := a.GetObject().(*corev1.Service)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("expected a service, got %T", a.GetObject()))
	}
	var had []string
	if old, ok := a.GetOldObject().(*corev1.Service); ok && old != nil {
		had = old.Spec.ExternalIPs
	}
	for _, ip := range service.Spec.ExternalIPs {
		if !slices.Contains(had, ip) {
			return admission.NewForbidden(a, errors.New("Use of external IPs is denied by admission control")) //nolint:staticcheck // upstream's words
		}
	}
	return nil
}
