package namespaces

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// AutoProvision is the plugin NamespaceAutoProvision.
type AutoProvision struct{ known }

var _ admission.MutationInterface = (*AutoProvision)(nil)

// NewAutoProvision registers the informer it needs.
func NewAutoProvision(client kubernetes.Interface, factory informers.SharedInformerFactory) *AutoProvision {
	return &AutoProvision{newKnown(client, factory, admission.Create)}
}

// Admit implements admission.MutationInterface. A dry run makes nothing, and is then
// refused for want of the namespace.
func (p *AutoProvision) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.IsDryRun() {
		return nil
	}
	found, err := p.has(a)
	if found || err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.GetNamespace()}}
	if _, err := p.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return admission.NewForbidden(a, err)
	}
	return nil
}
