package defaultingressclass

import (
	"context"
	"errors"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	networkinglisters "k8s.io/client-go/listers/networking/v1"

	"pintle.dev/pintle/kernel/api/admission/defaultclass"
)

// classAnnotation named the class before spec.ingressClassName did.
const classAnnotation = "kubernetes.io/ingress.class"

// Plugin fills in the class of ingresses.
type Plugin struct {
	*admission.Handler
	classes networkinglisters.IngressClassLister
}

var _ admission.MutationInterface = (*Plugin)(nil)

// New registers the informer it needs.
func New(factory informers.SharedInformerFactory) *Plugin {
	classes := factory.Networking().V1().IngressClasses()
	p := &Plugin{admission.NewHandler(admission.Create), classes.Lister()}
	p.SetReadyFunc(classes.Informer().HasSynced)
	return p
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != networkingv1.Resource("ingresses") || a.GetSubresource() != "" {
		return nil
	}
	ingress, ok := a.GetObject().(*networkingv1.Ingress)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected an ingress but got a %T", a.GetObject()))
	}
	if _, named := ingress.Annotations[classAnnotation]; named || ingress.Spec.IngressClassName != nil {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	all, err := p.classes.List(labels.Everything())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if class, found := defaultclass.Newest(all, networkingv1.AnnotationIsDefaultIngressClass); found {
		name := class.Name
		ingress.Spec.IngressClassName = &name
	}
	return nil
}
