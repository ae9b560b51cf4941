package defaultstorageclass

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"pintle.dev/pintle/kernel/api/admission/defaultclass"
)

// defaultMarks are the annotations of a default class, by today's name and by its first.
var defaultMarks = []string{"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"}

// Plugin fills in the class of claims.
type Plugin struct {
	*admission.Handler
	classes storagelisters.StorageClassLister
}

var _ admission.MutationInterface = (*Plugin)(nil)

// New registers the informer it needs.
func New(factory informers.SharedInformerFactory) *Plugin {
	classes := factory.Storage().V1().StorageClasses()
	p := &Plugin{admission.NewHandler(admission.Create), classes.Lister()}
	p.SetReadyFunc(classes.Informer().HasSynced)
	return p
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("persistentvolumeclaims") || a.GetSubresource() != "" {
		return nil
	}
	claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected a persistent volume claim but got a %T", a.GetObject()))
	}
	if _, named := claim.Annotations[corev1.BetaStorageClassAnnotation]; named || claim.Spec.StorageClassName != nil {
		return nil // the empty name asks for none
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	all, err := p.classes.List(labels.Everything())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if class, found := defaultclass.Newest(all, defaultMarks...); found {
		name := class.Name
		claim.Spec.StorageClassName = &name
	}
	return nil
}
