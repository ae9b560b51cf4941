package cri

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Labels and annotations on sandboxes and containers, equal to the kubelet's.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"

	annotationHash           = "io.kubernetes.container.hash"
	annotationRestartCount   = "io.kubernetes.container.restartCount"
	annotationMessagePath    = "io.kubernetes.container.terminationMessagePath"
	annotationMessagePolicy  = "io.kubernetes.container.terminationMessagePolicy"
	annotationPreStop        = "io.kubernetes.container.preStopHandler"
	annotationPorts          = "io.kubernetes.container.ports"
	annotationDeletionGrace  = "io.kubernetes.pod.deletionGracePeriod"
	annotationTerminateGrace = "io.kubernetes.pod.terminationGracePeriod"
)

// SandboxLabels are the pod's labels and the three that identify the pod.
func SandboxLabels(pod *corev1.Pod) map[string]string {
	labels := make(map[string]string, len(pod.Labels)+3)
	maps.Copy(labels, pod.Labels)
	labels[LabelPodName] = pod.Name
	labels[LabelPodNamespace] = pod.Namespace
	labels[LabelPodUID] = string(pod.UID)
	return labels
}

// ContainerLabels identify a container of a pod.
func ContainerLabels(pod *corev1.Pod, container *corev1.Container) map[string]string {
	return map[string]string{
		LabelPodName: pod.Name, LabelPodNamespace: pod.Namespace, LabelPodUID: string(pod.UID),
		LabelContainerName: container.Name,
	}
}

// ContainerAnnotations keep what is needed to judge, stop and describe the container when its pod is no longer known.
func ContainerAnnotations(pod *corev1.Pod, container *corev1.Container, restarts int32) (map[string]string, error) {
	annotations := map[string]string{
		annotationHash:          strconv.FormatUint(HashContainer(container), 16),
		annotationRestartCount:  strconv.Itoa(int(restarts)),
		annotationMessagePath:   container.TerminationMessagePath,
		annotationMessagePolicy: string(container.TerminationMessagePolicy),
	}
	if g := pod.DeletionGracePeriodSeconds; g != nil {
		annotations[annotationDeletionGrace] = strconv.FormatInt(*g, 10)
	}
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		annotations[annotationTerminateGrace] = strconv.FormatInt(*g, 10)
	}
	if container.Lifecycle != nil && container.Lifecycle.PreStop != nil {
		raw, err := json.Marshal(container.Lifecycle.PreStop)
		if err != nil {
			return nil, fmt.Errorf("encode preStop of container %s: %w", container.Name, err)
		}
		annotations[annotationPreStop] = string(raw)
	}
	if len(container.Ports) > 0 {
		raw, err := json.Marshal(container.Ports)
		if err != nil {
			return nil, fmt.Errorf("encode ports of container %s: %w", container.Name, err)
		}
		annotations[annotationPorts] = string(raw)
	}
	return annotations, nil
}

// HashContainer tells two specs apart that need a restart: name and image. Other fields are immutable in the API or,
// like resources, changed in place.
func HashContainer(container *corev1.Container) uint64 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%q,%q", container.Name, container.Image)
	return uint64(h.Sum32())
}

// owner reads the pod that a sandbox or container belongs to; ok is false for what the agent did not make (CGC-3).
func owner(labels map[string]string) (name types.NamespacedName, uid types.UID, ok bool) {
	name = types.NamespacedName{Namespace: labels[LabelPodNamespace], Name: labels[LabelPodName]}
	uid = types.UID(labels[LabelPodUID])
	return name, uid, name.Name != "" && name.Namespace != "" && uid != ""
}
