package podtopologylabels

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Plugin labels pods.
type Plugin struct {
	*admission.Handler
	nodes corelisters.NodeLister
}

var _ admission.MutationInterface = (*Plugin)(nil)

// New registers the informer that it needs.
func New(factory informers.SharedInformerFactory) *Plugin {
	return &Plugin{admission.NewHandler(admission.Create), factory.Core().V1().Nodes().Lister()}
}

// Of are the labels that pods on a node get; nil where it has none, or is not
// there.
func (p *Plugin) Of(node string) map[string]string {
	n, err := p.nodes.Get(node)
	if err != nil {
		return nil // not there: a lister gives no other error
	}
	var out map[string]string
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if value, ok := n.Labels[key]; ok {
			if out == nil {
				out = make(map[string]string, 2)
			}
			out[key] = value
		}
	}
	return out
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected Pod but got %T", a.GetObject()))
	}
	if pod.Spec.NodeName == "" {
		return nil
	}
	if add := p.Of(pod.Spec.NodeName); add != nil {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		maps.Copy(pod.Labels, add) // the node's are right, whatever the pod says
	}
	return nil
}
