package podtolerationrestriction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubectl/pkg/util/qos"
)

// The annotations of a namespace, each a list of tolerations in JSON.
const (
	DefaultsAnnotation = "scheduler.alpha.kubernetes.io/defaultTolerations"
	AllowedAnnotation  = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// Plugin adds and restricts tolerations.
type Plugin struct {
	*admission.Handler
	client     kubernetes.Interface
	namespaces corelisters.NamespaceLister
	cluster    Configuration
}

var (
	_ admission.MutationInterface   = (*Plugin)(nil)
	_ admission.ValidationInterface = (*Plugin)(nil)
)

// New reads the configuration, which may be empty, and registers the informer that it needs.
func New(client kubernetes.Interface, factory informers.SharedInformerFactory, configuration []byte) (*Plugin, error) {
	cluster, err := load(configuration)
	if err != nil {
		return nil, err
	}
	namespaces := factory.Core().V1().Namespaces()
	p := &Plugin{admission.NewHandler(admission.Create, admission.Update), client, namespaces.Lister(), cluster}
	p.SetReadyFunc(namespaces.Informer().HasSynced)
	return p, nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podOf(a)
	if err != nil || pod == nil {
		return err
	}
	var more []corev1.Toleration
	if a.GetOperation() == admission.Create {
		var given bool
		if more, given, err = p.annotated(ctx, a, DefaultsAnnotation); err != nil {
			return err
		}
		if !given {
			more = slices.Clone(p.cluster.Default)
		}
	}
	if qos.GetPodQOS(pod) != corev1.PodQOSBestEffort {
		more = append(more, corev1.Toleration{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	if len(more) > 0 {
		pod.Spec.Tolerations = merge(slices.Concat(pod.Spec.Tolerations, more))
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podOf(a)
	if err != nil || pod == nil || len(pod.Spec.Tolerations) == 0 {
		return err
	}
	allowed, given, err := p.annotated(ctx, a, AllowedAnnotation)
	if err != nil {
		return err
	}
	whose := "namespace"
	if !given {
		allowed, whose = p.cluster.Allowed, "cluster"
	}
	if len(allowed) == 0 {
		return nil
	}
	for _, t := range pod.Spec.Tolerations {
		if !slices.ContainsFunc(allowed, func(wide corev1.Toleration) bool { return covers(wide, t) }) {
			return admission.NewForbidden(a, fmt.Errorf("pod tolerations (possibly merged with namespace default tolerations) conflict with its %s whitelist", whose))
		}
	}
	return nil
}

func podOf(a admission.Attributes) (*corev1.Pod, error) {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil, nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected a pod but got a %T", a.GetObject()))
	}
	return pod, nil
}

// annotated reads tolerations from the pod's namespace; given says that it has the
// annotation.
func (p *Plugin) annotated(ctx context.Context, a admission.Attributes, annotation string) (_ []corev1.Toleration, given bool, _ error) {
	if !p.WaitForReady() {
		return nil, false, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	namespace, err := p.namespaces.Get(a.GetNamespace())
	if apierrors.IsNotFound(err) { // it was made just now
		namespace, err = p.client.CoreV1().Namespaces().Get(ctx, a.GetNamespace(), metav1.GetOptions{})
	}
	if err != nil {
		return nil, false, admission.NewForbidden(a, fmt.Errorf("namespace %s: %w", a.GetNamespace(), err))
	}
	text, given := namespace.Annotations[annotation]
	if text == "" {
		return nil, given, nil
	}
	var out []corev1.Toleration
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, false, admission.NewForbidden(a, fmt.Errorf("annotation %s of namespace %s: %w", annotation, namespace.Name, err))
	}
	return out, true, nil
}

// merge keeps of all tolerations those that no other covers, in their order; of
// equal ones the first.
func merge(all []corev1.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for i, t := range all {
		if slices.ContainsFunc(out, func(wide corev1.Toleration) bool { return covers(wide, t) }) ||
			slices.ContainsFunc(all[i+1:], func(wide corev1.Toleration) bool {
				return !equality.Semantic.DeepEqual(wide, t) && covers(wide, t)
			}) {
			continue
		}
		out = append(out, t)
	}
	return out
}

// covers reports whether wide tolerates whatever t does.
func covers(wide, t corev1.Toleration) bool {
	if equality.Semantic.DeepEqual(wide, t) {
		return true
	}
	everyKey := wide.Key == "" && wide.Operator == corev1.TolerationOpExists
	if wide.Key != t.Key && !everyKey || wide.Effect != t.Effect && wide.Effect != "" {
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
		return (t.Operator == corev1.TolerationOpEqual || t.Operator == "") && t.Value == wide.Value
	}
	return false // what it compares by is not known to be wider
}
