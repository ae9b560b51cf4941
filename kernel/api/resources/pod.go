package resources

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

func podKind() Kind {
	s := newPodStrategy()
	return Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Singular: "pod",
		ShortNames: []string{"po"}, Categories: []string{"all"},
		New:      func() runtime.Object { return &corev1.Pod{} },
		NewList:  func() runtime.Object { return &corev1.PodList{} },
		Strategy: s,
		Status:   newPodStatusStrategy(s),
		Subresources: map[string]Strategy{
			"ephemeralcontainers": podEphemeralContainersStrategy{s},
			"resize":              podResizeStrategy{s},
		},
		Fields: podFields,
		FieldNames: []string{
			"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
			"status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
		},
		// A watch a node.
		Index: storage.IndexerFuncs{
			"spec.nodeName": func(obj runtime.Object) string { return obj.(*corev1.Pod).Spec.NodeName },
		},
		Columns: podColumns(), Row: podRow,
	}
}

func podFields(obj runtime.Object) fields.Set {
	pod := obj.(*corev1.Pod)
	// Room for metadata.name and metadata.namespace, which the caller adds.
	set := make(fields.Set, 10)
	set["spec.nodeName"] = pod.Spec.NodeName
	set["spec.restartPolicy"] = string(pod.Spec.RestartPolicy)
	set["spec.schedulerName"] = pod.Spec.SchedulerName
	set["spec.serviceAccountName"] = pod.Spec.ServiceAccountName
	set["spec.hostNetwork"] = strconv.FormatBool(pod.Spec.HostNetwork)
	set["status.phase"] = string(pod.Status.Phase)
	ip := pod.Status.PodIP
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	set["status.podIP"] = ip
	set["status.nominatedNodeName"] = pod.Status.NominatedNodeName
	return set
}
