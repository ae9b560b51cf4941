package namespaces

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

var errNotReady = errors.New("not yet ready to handle request")

// known are the namespaces that a plugin knows of.
type known struct {
	*admission.Handler
	client kubernetes.Interface
	lister corelisters.NamespaceLister
}

// newKnown registers the informer it needs.
func newKnown(client kubernetes.Interface, factory informers.SharedInformerFactory, operations ...admission.Operation) known {
	namespaces := factory.Core().V1().Namespaces()
	k := known{admission.NewHandler(operations...), client, namespaces.Lister()}
	k.SetReadyFunc(namespaces.Informer().HasSynced)
	return k
}

// has reports whether the namespace of a request is known. Namespaces themselves and
// objects that are in none have what they need.
func (k known) has(a admission.Attributes) (bool, error) {
	if a.GetNamespace() == "" || a.GetKind().GroupKind() == corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind() {
		return true, nil
	}
	if !k.WaitForReady() {
		return false, admission.NewForbidden(a, errNotReady)
	}
	_, err := k.lister.Get(a.GetNamespace())
	return err == nil, nil
}

// Exists is the plugin NamespaceExists.
type Exists struct{ known }

var _ admission.ValidationInterface = (*Exists)(nil)

// NewExists registers the informer it needs.
func NewExists(client kubernetes.Interface, factory informers.SharedInformerFactory) *Exists {
	return &Exists{newKnown(client, factory, admission.Create, admission.Update, admission.Delete)}
}

// Validate implements admission.ValidationInterface.
func (e *Exists) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	found, err := e.has(a)
	if found || err != nil {
		return err
	}
	// The informer may not know yet of one that was made just now.
	_, err = e.client.CoreV1().Namespaces().Get(ctx, a.GetNamespace(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return apierrors.NewInternalError(err)
	}
	return err
}
