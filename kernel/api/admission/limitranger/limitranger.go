package limitranger

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Plugin is the admission plugin.
type Plugin struct {
	*admission.Handler
	client kubernetes.Interface
	ranges corelisters.LimitRangeLister
	synced func() bool
}

var (
	_ admission.MutationInterface   = (*Plugin)(nil)
	_ admission.ValidationInterface = (*Plugin)(nil)
)

// New registers the informer it needs.
func New(client kubernetes.Interface, factory informers.SharedInformerFactory) *Plugin {
	ranges := factory.Core().V1().LimitRanges()
	return &Plugin{
		Handler: admission.NewHandler(admission.Create, admission.Update),
		client:  client, ranges: ranges.Lister(), synced: ranges.Informer().HasSynced,
	}
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil
	}
	return p.each(ctx, a, func(limits *corev1.LimitRange) error {
		setDefaults(limits, pod)
		return nil
	})
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return p.each(ctx, a, func(limits *corev1.LimitRange) error {
		switch obj := a.GetObject().(type) {
		case *corev1.Pod:
			return checkPod(limits, obj)
		case *corev1.PersistentVolumeClaim:
			return checkClaim(limits, obj)
		}
		return nil
	})
}

// concerns: containers of a pod change by resize only.
func concerns(a admission.Attributes) bool {
	kind := a.GetKind().GroupKind()
	pod := kind == corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()
	update := a.GetOperation() == admission.Update
	switch a.GetSubresource() {
	case "resize":
		return pod && update
	case "":
		return pod && !update || kind == corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim").GroupKind()
	}
	return false
}

func (p *Plugin) each(ctx context.Context, a admission.Attributes, do func(*corev1.LimitRange) error) error {
	if !concerns(a) {
		return nil
	}
	if old := a.GetOldObject(); old != nil {
		accessor, err := meta.Accessor(old)
		if err != nil {
			return admission.NewForbidden(a, err)
		}
		if accessor.GetDeletionTimestamp() != nil {
			return nil
		}
	}
	all, err := p.list(ctx, a)
	if err != nil {
		return err
	}
	for _, limits := range all {
		if err := do(limits); err != nil {
			return admission.NewForbidden(a, err)
		}
	}
	return nil
}

func (p *Plugin) list(ctx context.Context, a admission.Attributes) ([]*corev1.LimitRange, error) {
	if p.synced() {
		all, err := p.ranges.LimitRanges(a.GetNamespace()).List(labels.Everything())
		if err != nil {
			return nil, admission.NewForbidden(a, fmt.Errorf("unable to %s %v at this time because there was an error enforcing limit ranges", a.GetOperation(), a.GetResource()))
		}
		return all, nil
	}
	live, err := p.client.CoreV1().LimitRanges(a.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, admission.NewForbidden(a, err)
	}
	all := make([]*corev1.LimitRange, 0, len(live.Items))
	for i := range live.Items {
		all = append(all, &live.Items[i])
	}
	return all, nil
}
