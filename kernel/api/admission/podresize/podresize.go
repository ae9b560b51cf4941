package podresize

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	resourcehelper "k8s.io/component-helpers/resource"
)

// The causes of a refusal.
const (
	causeCapacity metav1.CauseType = "NodeCapacity"
	causePlatform metav1.CauseType = "UnsupportedPlatform"
)

// Plugin refuses resizes that the node can never grant.
type Plugin struct {
	*admission.Handler
	client kubernetes.Interface
}

var _ admission.ValidationInterface = (*Plugin)(nil)

// New returns the plugin; the client may read nodes.
func New(client kubernetes.Interface) *Plugin {
	return &Plugin{admission.NewHandler(admission.Update), client}
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "resize" {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected a pod but got a %T", a.GetObject()))
	}
	old, ok := a.GetOldObject().(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected an old pod but got a %T", a.GetOldObject()))
	}
	if pod.Spec.NodeName == "" || pod.Generation == old.Generation {
		return nil
	}
	node, err := p.client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return admission.NewForbidden(a, fmt.Errorf("node %q not found", pod.Spec.NodeName))
	}
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to get node %q: %w", pod.Spec.NodeName, err))
	}
	if os := node.Labels[corev1.LabelOSStable]; os != "" && os != string(corev1.Linux) {
		return refused(a, causePlatform, fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, os))
	}
	if lacks := exceeding(pod, node); len(lacks) > 0 {
		return refused(a, causeCapacity, fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(lacks, "; ")))
	}
	return nil
}

// exceeding names the requests that are larger than what the node gives to pods.
func exceeding(pod *corev1.Pod, node *corev1.Node) []string {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	cpu, memory := requests[corev1.ResourceCPU], requests[corev1.ResourceMemory]
	var out []string
	if have := node.Status.Allocatable.Cpu(); cpu.Cmp(*have) > 0 {
		out = append(out, fmt.Sprintf("cpu, requested: %d, allocatable: %d", cpu.MilliValue(), have.MilliValue()))
	}
	if have := node.Status.Allocatable.Memory(); memory.Cmp(*have) > 0 {
		out = append(out, fmt.Sprintf("memory, requested: %d, allocatable: %d", memory.Value(), have.Value()))
	}
	return out
}

func refused(a admission.Attributes, cause metav1.CauseType, err error) error {
	forbidden := admission.NewForbidden(a, err)
	var status *apierrors.StatusError
	if errors.As(forbidden, &status) && status.ErrStatus.Details != nil {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return forbidden
}
