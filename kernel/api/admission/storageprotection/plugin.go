package storageprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// finalizers are upstream's, by kind.
var finalizers = map[schema.GroupResource]string{
	corev1.Resource("persistentvolumeclaims"):     "kubernetes.io/pvc-protection",
	corev1.Resource("persistentvolumes"):          "kubernetes.io/pv-protection",
	storagev1.Resource("volumeattributesclasses"): "kubernetes.io/vac-protection",
}

// Plugin gives finalizers to new objects.
type Plugin struct{ *admission.Handler }

var _ admission.MutationInterface = (*Plugin)(nil)

// New makes the plugin.
func New() *Plugin { return &Plugin{admission.NewHandler(admission.Create)} }

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	finalizer, protected := finalizers[a.GetResource().GroupResource()]
	if !protected || a.GetSubresource() != "" {
		return nil
	}
	o, err := meta.Accessor(a.GetObject())
	if err != nil {
		return nil // no object of the kind
	}
	if have := o.GetFinalizers(); !slices.Contains(have, finalizer) {
		o.SetFinalizers(append(slices.Clone(have), finalizer))
	}
	return nil
}
