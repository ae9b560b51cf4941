package container

import (
	"fmt"
	"iter"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Format names a pod as the kubelet's messages do: name_namespace(uid).
func Format(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

// IsSidecar tells that an init container keeps running beside the main containers (restartPolicy Always).
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// IsInit tells that name is one of the pod's init containers, sidecars included.
func IsInit(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return true
		}
	}
	return false
}

// All walks init, main and ephemeral containers in that order.
func All(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range pod.Spec.InitContainers {
			if !yield(&pod.Spec.InitContainers[i]) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yield(&pod.Spec.Containers[i]) {
				return
			}
		}
		for i := range pod.Spec.EphemeralContainers {
			if !yield(Ephemeral(&pod.Spec.EphemeralContainers[i])) {
				return
			}
		}
	}
}

// Ephemeral is the container part of an ephemeral container.
func Ephemeral(e *corev1.EphemeralContainer) *corev1.Container {
	c := corev1.Container(e.EphemeralContainerCommon)
	return &c
}

// Find is the container of that name, of any kind, or nil.
func Find(pod *corev1.Pod, name string) *corev1.Container {
	for c := range All(pod) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// FieldPath is the event field path of a container: spec.containers{name} and the like.
func FieldPath(pod *corev1.Pod, name string) string {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return fmt.Sprintf("spec.containers{%s}", name)
		}
	}
	if IsInit(pod, name) {
		return fmt.Sprintf("spec.initContainers{%s}", name)
	}
	return fmt.Sprintf("spec.ephemeralContainers{%s}", name)
}

// RestartPolicy is the policy that holds for a container: its own, or the pod's; Always in an init container that is
// not a sidecar acts as OnFailure.
func RestartPolicy(pod *corev1.Pod, c *corev1.Container) corev1.RestartPolicy {
	if c.RestartPolicy != nil {
		return corev1.RestartPolicy(*c.RestartPolicy)
	}
	return pod.Spec.RestartPolicy
}

// Port finds the number of a port named or numbered by a probe or hook.
func Port(c *corev1.Container, port intstr.IntOrString) (int, error) {
	n := 0
	if port.Type == intstr.Int {
		n = port.IntValue()
	} else {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				n = int(p.ContainerPort)
			}
		}
		if n == 0 {
			// A number written as a string is allowed by the API.
			var err error
			if n, err = strconv.Atoi(port.StrVal); err != nil {
				return 0, fmt.Errorf("couldn't find port: %v", port.String())
			}
		}
	}
	if n <= 0 || n > 65535 {
		return 0, fmt.Errorf("invalid port number: %v", n)
	}
	return n, nil
}

// QOS is the pod's quality of service class: Guaranteed when each container limits cpu and memory and requests the
// same, BestEffort when nothing is requested, else Burstable. Init containers count. A request that was left out is
// the limit by default; one of zero is less.
func QOS(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	guaranteed, any := true, false
	check := func(r corev1.ResourceRequirements) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit := r.Limits[name]
			request, has := r.Requests[name]
			if !has {
				request = limit
			}
			any = any || limit.Sign() > 0 || request.Sign() > 0
			guaranteed = guaranteed && limit.Sign() > 0 && request.Cmp(limit) == 0
		}
	}
	if pod.Spec.Resources != nil {
		check(*pod.Spec.Resources)
	} else {
		for i := range pod.Spec.InitContainers {
			check(pod.Spec.InitContainers[i].Resources)
		}
		for i := range pod.Spec.Containers {
			check(pod.Spec.Containers[i].Resources)
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// HasPrivileged tells that a container of the pod is privileged.
func HasPrivileged(pod *corev1.Pod) bool {
	for c := range All(pod) {
		if c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged {
			return true
		}
	}
	return false
}
