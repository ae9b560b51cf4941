package extendedresourcetoleration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
)

// Plugin adds tolerations.
type Plugin struct{ *admission.Handler }

var _ admission.MutationInterface = (*Plugin)(nil)

// New returns the plugin.
func New() *Plugin { return &Plugin{admission.NewHandler(admission.Create, admission.Update)} }

// Admit implements admission.MutationInterface.
func (*Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected a pod but got a %T", a.GetObject()))
	}
	requested := map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for name := range c.Resources.Requests {
			if extended(string(name)) {
				requested[string(name)] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		wanted := corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return covers(t, wanted) }) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, wanted)
		}
	}
	return nil
}

// covers: there for good, and for all values.
func covers(t, wanted corev1.Toleration) bool {
	return t.Operator == corev1.TolerationOpExists && t.TolerationSeconds == nil &&
		(t.Key == wanted.Key || t.Key == "") && (t.Effect == wanted.Effect || t.Effect == "")
}

// extended: of somebody's domain, and not Kubernetes' own.
func extended(name string) bool {
	domain, _, ok := strings.Cut(name, "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") && !strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix)
}
