package resources

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// setPodDefaults fills what only a pod gets, not a template: requests from
// limits, pod-level resources, service links, host ports.
func setPodDefaults(pod *corev1.Pod) {
	for i := range pod.Spec.InitContainers {
		defaultRequests(&pod.Spec.InitContainers[i].Resources)
	}
	for i := range pod.Spec.Containers {
		defaultRequests(&pod.Spec.Containers[i].Resources)
	}
	if pod.Spec.Resources != nil {
		defaultPodHugePageLimits(pod)
		defaultPodRequests(pod)
	}
	if pod.Spec.EnableServiceLinks == nil {
		links := corev1.DefaultEnableServiceLinks
		pod.Spec.EnableServiceLinks = &links
	}
	setPodSpecDefaults(&pod.Spec)
	if t := pod.Spec.TerminationGracePeriodSeconds; *t < 0 {
		*t = 1
	}
	dropInitContainerAnnotations(pod.Annotations)
	if pod.Spec.HostNetwork {
		defaultHostPorts(pod.Spec.Containers)
		defaultHostPorts(pod.Spec.InitContainers)
	}
	setPodIPs(&pod.Status)
}

// setPodIPs keeps the first of the lists and the single addresses, which older
// clients write and read, in step.
func setPodIPs(s *corev1.PodStatus) {
	if s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP) {
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	} else if len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
	if s.HostIP != "" && len(s.HostIPs) == 0 {
		s.HostIPs = []corev1.HostIP{{IP: s.HostIP}}
	}
}

// dropInitContainerAnnotations removes what init containers were before they
// had a field.
func dropInitContainerAnnotations(notes map[string]string) {
	for _, version := range []string{"alpha", "beta"} {
		delete(notes, "pod."+version+".kubernetes.io/init-containers")
		delete(notes, "pod."+version+".kubernetes.io/init-container-statuses")
	}
}

func defaultRequests(r *corev1.ResourceRequirements) {
	if r.Limits == nil {
		return
	}
	if r.Requests == nil {
		r.Requests = make(corev1.ResourceList, len(r.Limits))
	}
	for name, limit := range r.Limits {
		if _, set := r.Requests[name]; !set {
			r.Requests[name] = limit.DeepCopy()
		}
	}
}

// defaultPodRequests completes pod-level requests where pod-level limits are
// given: by what the containers ask together, else by the limit (KEP-2837).
func defaultPodRequests(pod *corev1.Pod) {
	r := pod.Spec.Resources
	if len(r.Limits) == 0 {
		return
	}
	requests := r.Requests
	if requests == nil {
		requests = corev1.ResourceList{}
	}
	for name, sum := range resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if _, set := requests[name]; !set && resourcehelper.IsSupportedPodLevelResource(name) && overcommitAllowed(name) {
			requests[name] = sum.DeepCopy()
		}
	}
	for name, limit := range r.Limits {
		if _, set := requests[name]; !set && resourcehelper.IsSupportedPodLevelResource(name) {
			requests[name] = limit.DeepCopy()
		}
	}
	if len(requests) > 0 {
		r.Requests = requests
	}
}

// defaultPodHugePageLimits sums the containers' huge page limits up to the pod
// where it has other pod-level resources and none for that page size.
func defaultPodHugePageLimits(pod *corev1.Pod) {
	r := pod.Spec.Resources
	if len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	limits := r.Limits
	if limits == nil {
		limits = corev1.ResourceList{}
	}
	for name, sum := range resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{}) {
		if !resourcehelper.IsSupportedPodLevelResource(name) || !isHugePage(name) {
			continue
		}
		if _, requested := r.Requests[name]; requested {
			continue
		}
		if _, set := limits[name]; !set {
			limits[name] = sum.DeepCopy()
		}
	}
	if len(limits) > 0 {
		r.Limits = limits
	}
}

func defaultHostPorts(containers []corev1.Container) {
	for i := range containers {
		for j := range containers[i].Ports {
			if p := &containers[i].Ports[j]; p.HostPort == 0 {
				p.HostPort = p.ContainerPort
			}
		}
	}
}

func isHugePage(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// overcommitAllowed: native resources may be requested below their limit, huge
// pages and extended resources may not.
func overcommitAllowed(name corev1.ResourceName) bool {
	return isNativeResource(name) && !isHugePage(name)
}

func isNativeResource(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

func setPodLogDefaults(o *corev1.PodLogOptions) {
	if o.Stream == nil {
		all := corev1.LogStreamAll
		o.Stream = &all
	}
}
