package volumeresize

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"
)

var (
	errUnbound = errors.New("Only bound persistent volume claims can be expanded") //nolint:staticcheck // upstream's words
	errFixed   = errors.New("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
)

// Plugin refuses claims that grow and may not.
type Plugin struct {
	*admission.Handler
	classes storagelisters.StorageClassLister
}

var _ admission.ValidationInterface = (*Plugin)(nil)

// New registers the informer it needs.
func New(factory informers.SharedInformerFactory) *Plugin {
	classes := factory.Storage().V1().StorageClasses()
	p := &Plugin{admission.NewHandler(admission.Update), classes.Lister()}
	p.SetReadyFunc(classes.Informer().HasSynced)
	return p
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("persistentvolumeclaims") || a.GetSubresource() != "" {
		return nil
	}
	claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
	old, ok2 := a.GetOldObject().(*corev1.PersistentVolumeClaim)
	if !ok || !ok2 {
		return nil
	}
	before, after := old.Spec.Resources.Requests[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if after.Cmp(before) <= 0 {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		return admission.NewForbidden(a, errUnbound)
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	name := classOf(claim)
	if name == "" || name != classOf(old) {
		return admission.NewForbidden(a, errFixed)
	}
	class, err := p.classes.Get(name)
	if err != nil || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
		return admission.NewForbidden(a, errFixed)
	}
	return nil
}

func classOf(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}
