package clusterips

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applynetworkingv1 "k8s.io/client-go/applyconfigurations/networking/v1"
	typednetworkingv1 "k8s.io/client-go/kubernetes/typed/networking/v1"
)

// Default is the ServiceCIDR of the configured ranges.
const Default = "kubernetes"

// defaultManager owns the condition of Default, as upstream's controller of it.
const defaultManager = "kubernetes-service-cidr-controller"

// EnsureDefault makes the ServiceCIDR of the configured ranges if there is none, and
// says that it is ready unless somebody has said anything. One that lacks the second
// family gets it. One of another range is left as it is, and logged.
func EnsureDefault(ctx context.Context, client typednetworkingv1.ServiceCIDRInterface, cidrs []string, log *slog.Logger) error {
	have, err := client.Get(ctx, Default, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		have, err = client.Create(ctx, &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: Default}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // another server was first
			have, err = client.Get(ctx, Default, metav1.GetOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("servicecidr %s: %w", Default, err)
	}
	if len(cidrs) == 2 && slices.Equal(have.Spec.CIDRs, cidrs[:1]) {
		both := have.DeepCopy()
		both.Spec.CIDRs = cidrs
		if have, err = client.Update(ctx, both, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("servicecidr %s: add the range of the other IP family: %w", Default, err)
		}
	}
	if !slices.Equal(have.Spec.CIDRs, cidrs) {
		log.Warn("services get addresses of the ServiceCIDR kubernetes, not of api.serviceCIDR, which differs; make a ServiceCIDR of the new range and delete the old one, or set the key back",
			"servicecidr", have.Spec.CIDRs, "api.serviceCIDR", cidrs)
		return nil
	}
	condition := meta.FindStatusCondition(have.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if have.DeletionTimestamp != nil || condition != nil && condition.Status != metav1.ConditionUnknown {
		return nil
	}
	status := applynetworkingv1.ServiceCIDRStatus().WithConditions(applymetav1.Condition().
		WithType(networkingv1.ServiceCIDRConditionReady).WithStatus(metav1.ConditionTrue).WithReason("").
		WithMessage("Kubernetes default Service CIDR is ready").WithLastTransitionTime(metav1.Now()))
	if _, err := client.ApplyStatus(ctx, applynetworkingv1.ServiceCIDR(Default).WithStatus(status),
		metav1.ApplyOptions{FieldManager: defaultManager, Force: true}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("servicecidr %s: status: %w", Default, err)
	}
	return nil
}
