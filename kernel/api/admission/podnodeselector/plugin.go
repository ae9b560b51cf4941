package podnodeselector

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"sigs.k8s.io/yaml"
)

// Annotation of a namespace: the node selector of its pods.
const Annotation = "scheduler.alpha.kubernetes.io/node-selector"

var (
	errConflict   = errors.New("pod node label selector conflicts with its namespace node label selector")
	errNotAllowed = errors.New("pod node label selector labels conflict with its namespace whitelist")
)

// Plugin adds node selectors.
type Plugin struct {
	*admission.Handler
	client     kubernetes.Interface
	namespaces corelisters.NamespaceLister
	// byDefault is for namespaces without the annotation, allowed by namespace.
	byDefault labels.Set
	allowed   map[string]labels.Set
}

var (
	_ admission.MutationInterface   = (*Plugin)(nil)
	_ admission.ValidationInterface = (*Plugin)(nil)
)

// defaultKey is where the configuration has the selector of namespaces without the
// annotation. Its other keys are namespaces.
const defaultKey = "clusterDefaultNodeSelector"

// New reads the configuration, which may be empty, and registers the informer that it needs.
func New(client kubernetes.Interface, factory informers.SharedInformerFactory, configuration []byte) (*Plugin, error) {
	namespaces := factory.Core().V1().Namespaces()
	p := &Plugin{Handler: admission.NewHandler(admission.Create), client: client, namespaces: namespaces.Lister(), allowed: map[string]labels.Set{}}
	var file struct {
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	if err := yaml.UnmarshalStrict(configuration, &file); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	for key, text := range file.Selectors {
		selector, err := labels.ConvertSelectorToLabelsMap(text)
		if err != nil {
			return nil, fmt.Errorf("podNodeSelectorPluginConfig.%s: %w", key, err)
		}
		if key == defaultKey {
			p.byDefault = selector
		} else {
			p.allowed[key] = selector
		}
	}
	p.SetReadyFunc(namespaces.Informer().HasSynced)
	return p, nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, selector, err := p.selector(ctx, a)
	if err != nil || len(selector) == 0 {
		return err
	}
	pod.Spec.NodeSelector = labels.Merge(selector, pod.Spec.NodeSelector)
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, selector, err := p.selector(ctx, a)
	if err != nil {
		return err
	}
	if pod == nil {
		return nil
	}
	for key, value := range selector {
		if pod.Spec.NodeSelector[key] != value {
			return apierrors.NewForbidden(a.GetResource().GroupResource(), pod.Name, errConflict)
		}
	}
	if allowed := p.allowed[a.GetNamespace()]; len(allowed) > 0 {
		for key, value := range pod.Spec.NodeSelector {
			if have, ok := allowed[key]; !ok || have != value {
				return apierrors.NewForbidden(a.GetResource().GroupResource(), pod.Name, errNotAllowed)
			}
		}
	}
	return nil
}

// selector is what the pod's namespace asks for; a pod that says otherwise is
// refused.
func (p *Plugin) selector(ctx context.Context, a admission.Attributes) (*corev1.Pod, labels.Set, error) {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil, nil, nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("expected a pod but got a %T", a.GetObject()))
	}
	if !p.WaitForReady() {
		return nil, nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	namespace, err := p.namespaces.Get(a.GetNamespace())
	if apierrors.IsNotFound(err) { // it was made just now
		namespace, err = p.client.CoreV1().Namespaces().Get(ctx, a.GetNamespace(), metav1.GetOptions{})
	}
	if err != nil {
		return nil, nil, admission.NewForbidden(a, fmt.Errorf("namespace %s: %w", a.GetNamespace(), err))
	}
	selector := p.byDefault
	if text, ok := namespace.Annotations[Annotation]; ok {
		selector, err = labels.ConvertSelectorToLabelsMap(text)
	}
	if err != nil {
		return nil, nil, admission.NewForbidden(a, fmt.Errorf("annotation %s of namespace %s: %w", Annotation, namespace.Name, err))
	}
	if labels.Conflicts(selector, labels.Set(pod.Spec.NodeSelector)) {
		return nil, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), pod.Name, errConflict)
	}
	return pod, selector, nil
}
