package runtimeclass

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	nodelisters "k8s.io/client-go/listers/node/v1"
)

// Plugin applies runtime classes to pods.
type Plugin struct {
	*admission.Handler
	client  kubernetes.Interface
	classes nodelisters.RuntimeClassLister
}

var (
	_ admission.MutationInterface   = (*Plugin)(nil)
	_ admission.ValidationInterface = (*Plugin)(nil)
)

var errOverhead = errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")

// New registers the informer it needs.
func New(client kubernetes.Interface, factory informers.SharedInformerFactory) *Plugin {
	classes := factory.Node().V1().RuntimeClasses()
	_ = classes.Informer()
	return &Plugin{Handler: admission.NewHandler(admission.Create), client: client, classes: classes.Lister()}
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, class, err := p.objects(ctx, a)
	if err != nil || class == nil {
		return err
	}
	if class.Overhead != nil {
		if len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return admission.NewForbidden(a, errOverhead)
		}
		pod.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
	if class.Scheduling == nil {
		return nil
	}
	for key, value := range class.Scheduling.NodeSelector {
		if given, ok := pod.Spec.NodeSelector[key]; ok && given != value {
			return admission.NewForbidden(a, fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, given))
		}
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[key] = value
	}
	pod.Spec.Tolerations = union(pod.Spec.Tolerations, class.Scheduling.Tolerations)
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, class, err := p.objects(ctx, a)
	if err != nil || pod == nil {
		return err
	}
	if class != nil && class.Overhead != nil {
		if !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return admission.NewForbidden(a, errOverhead)
		}
		return nil
	}
	if pod.Spec.Overhead != nil {
		return admission.NewForbidden(a, errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	}
	return nil
}

// objects returns no pod for requests that are not about one, and no class for
// a pod that names none.
func (p *Plugin) objects(ctx context.Context, a admission.Attributes) (*corev1.Pod, *nodev1.RuntimeClass, error) {
	if a.GetSubresource() != "" || a.GetResource().GroupResource() != corev1.Resource("pods") {
		return nil, nil, nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil, nil, apierrors.NewBadRequest("Resource was marked with kind Pod but was unable to be converted")
	}
	if pod.Spec.RuntimeClassName == nil {
		return pod, nil, nil
	}
	name := *pod.Spec.RuntimeClassName
	class, err := p.classes.Get(name)
	if apierrors.IsNotFound(err) {
		// Just created classes may not have reached the cache.
		class, err = p.client.NodeV1().RuntimeClasses().Get(ctx, name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil, nil, admission.NewForbidden(a, fmt.Errorf("pod rejected: RuntimeClass %q not found", name))
	}
	return pod, class, err
}

// union leaves out tolerations that another one covers.
func union(lists ...[]corev1.Toleration) []corev1.Toleration {
	var all, out []corev1.Toleration
	for _, list := range lists {
		all = append(all, list...)
	}
next:
	for i := range all {
		for _, kept := range out {
			if equality.Semantic.DeepEqual(all[i], kept) || covers(kept, all[i]) {
				continue next
			}
		}
		for j := i + 1; j < len(all); j++ {
			if !equality.Semantic.DeepEqual(all[i], all[j]) && covers(all[j], all[i]) {
				continue next
			}
		}
		out = append(out, all[i])
	}
	return out
}

// covers says whether each taint that t tolerates, wide does as well, for as
// long.
func covers(wide, t corev1.Toleration) bool {
	if wide.Key != t.Key && wide.Key != "" || wide.Effect != t.Effect && wide.Effect != "" {
		return false
	}
	if wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil &&
		(t.TolerationSeconds == nil || *t.TolerationSeconds > *wide.TolerationSeconds) {
		return false
	}
	switch wide.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return t.Operator == wide.Operator && t.Value == wide.Value
	}
	return false
}
