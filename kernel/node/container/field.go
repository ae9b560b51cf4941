package container

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Addresses are the downward API's facts that are not in the pod object.
type Addresses struct {
	PodIPs, HostIPs []string
}

// Field is the value of a downward API field path (metadata.name, metadata.labels['key'], status.podIP, …).
func Field(pod *corev1.Pod, path string, addr Addresses) (string, error) {
	if base, key, ok := subscript(path); ok {
		switch base {
		case "metadata.annotations":
			return pod.Annotations[key], nil
		case "metadata.labels":
			return pod.Labels[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	switch path {
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(addr.HostIPs), nil
	case "status.hostIPs":
		return strings.Join(addr.HostIPs, ","), nil
	case "status.podIP":
		return first(addr.PodIPs), nil
	case "status.podIPs":
		return strings.Join(addr.PodIPs, ","), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

func subscript(path string) (base, key string, ok bool) {
	if !strings.HasSuffix(path, "']") {
		return path, "", false
	}
	base, key, ok = strings.Cut(strings.TrimSuffix(path, "']"), "['")
	return base, key, ok && base != "" && key != ""
}

// formatMap writes one key="value" a line, sorted, without a final newline.
func formatMap(m map[string]string) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	lines := make([]string, 0, len(keys))
	for _, k := range keys {
		lines = append(lines, fmt.Sprintf("%s=%q", k, m[k]))
	}
	return strings.Join(lines, "\n")
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// ResourceField is a container's request or limit in units of the divisor, rounded up. A missing limit of cpu, memory
// or ephemeral-storage is the node's allocatable.
func ResourceField(pod *corev1.Pod, c *corev1.Container, ref *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	if ref.ContainerName != "" && ref.ContainerName != c.Name {
		other := Find(pod, ref.ContainerName)
		if other == nil {
			return "", fmt.Errorf("container %s not found", ref.ContainerName)
		}
		c = other
	}
	kind, name, ok := strings.Cut(ref.Resource, ".")
	if !ok || (kind != "limits" && kind != "requests") {
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	resourceName := corev1.ResourceName(name)
	list := c.Resources.Requests
	if kind == "limits" {
		list = c.Resources.Limits
	}
	q, set := list[resourceName]
	if kind == "limits" && (!set || q.IsZero()) {
		if podLimit, has := podLevelLimit(pod, resourceName); has {
			q = podLimit
		} else {
			q = allocatable[resourceName]
		}
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if resourceName == corev1.ResourceCPU {
		return strconv.FormatInt(int64(math.Ceil(float64(q.MilliValue())/float64(divisor.MilliValue()))), 10), nil
	}
	return strconv.FormatInt(int64(math.Ceil(float64(q.Value())/float64(divisor.Value()))), 10), nil
}

func podLevelLimit(pod *corev1.Pod, name corev1.ResourceName) (resource.Quantity, bool) {
	if !resourcehelper.IsPodLevelResourcesSet(pod) {
		return resource.Quantity{}, false
	}
	q, ok := pod.Spec.Resources.Limits[name]
	return q, ok && !q.IsZero()
}
