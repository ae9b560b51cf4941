package limitranger

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const annotation = "kubernetes.io/limit-ranger"

// setDefaults fills in what the containers leave open and notes it in an
// annotation.
func setDefaults(limits *corev1.LimitRange, pod *corev1.Pod) {
	requests, maxima := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range limits.Spec.Limits {
		if item := &limits.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, item.DefaultRequest)
			maps.Copy(maxima, item.Default)
		}
	}
	if len(requests) == 0 && len(maxima) == 0 {
		return
	}
	var notes []string
	for i := range pod.Spec.Containers {
		notes = append(notes, fill(&pod.Spec.Containers[i], "container", requests, maxima)...)
	}
	for i := range pod.Spec.InitContainers {
		notes = append(notes, fill(&pod.Spec.InitContainers[i], "init container", requests, maxima)...)
	}
	if len(notes) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
}

func fill(container *corev1.Container, kind string, requests, maxima corev1.ResourceList) []string {
	var notes []string
	add := func(list *corev1.ResourceList, defaults corev1.ResourceList, what string) {
		var set []string
		for name, quantity := range defaults {
			if _, ok := (*list)[name]; ok {
				continue
			}
			if *list == nil {
				*list = corev1.ResourceList{}
			}
			(*list)[name] = quantity.DeepCopy()
			set = append(set, string(name))
		}
		if len(set) > 0 {
			slices.Sort(set)
			notes = append(notes, strings.Join(set, ", ")+" "+what+" for "+kind+" "+container.Name)
		}
	}
	add(&container.Resources.Requests, requests, "request")
	add(&container.Resources.Limits, maxima, "limit")
	return notes
}
