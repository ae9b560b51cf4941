package node

import (
	corev1 "k8s.io/api/core/v1"
)

// mirrors says whether the pod shows one that the node runs without the API. A
// node makes such pods itself, so they give it a right to nothing.
func mirrors(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// anyEnv says whether an environment of any of the pod's containers is so.
func anyEnv(pod *corev1.Pod, one func(*corev1.EnvVarSource) bool, from func(*corev1.EnvFromSource) bool) bool {
	in := func(env []corev1.EnvVar, sources []corev1.EnvFromSource) bool {
		for i := range env {
			if env[i].ValueFrom != nil && one(env[i].ValueFrom) {
				return true
			}
		}
		for i := range sources {
			if from(&sources[i]) {
				return true
			}
		}
		return false
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if in(containers[i].Env, containers[i].EnvFrom) {
				return true
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if in(pod.Spec.EphemeralContainers[i].Env, pod.Spec.EphemeralContainers[i].EnvFrom) {
			return true
		}
	}
	return false
}

func refersToSecret(pod *corev1.Pod, name string) bool {
	if mirrors(pod) {
		return false
	}
	for i := range pod.Spec.ImagePullSecrets {
		if pod.Spec.ImagePullSecrets[i].Name == name {
			return true
		}
	}
	if anyEnv(pod,
		func(s *corev1.EnvVarSource) bool { return s.SecretKeyRef != nil && s.SecretKeyRef.Name == name },
		func(s *corev1.EnvFromSource) bool { return s.SecretRef != nil && s.SecretRef.Name == name }) {
		return true
	}
	for i := range pod.Spec.Volumes {
		if volumeSecret(&pod.Spec.Volumes[i].VolumeSource, name) {
			return true
		}
	}
	return false
}

func volumeSecret(v *corev1.VolumeSource, name string) bool {
	if v.Secret != nil && v.Secret.SecretName == name || v.AzureFile != nil && v.AzureFile.SecretName == name {
		return true
	}
	if v.Projected != nil {
		for i := range v.Projected.Sources {
			if s := v.Projected.Sources[i].Secret; s != nil && s.Name == name {
				return true
			}
		}
	}
	var ref *corev1.LocalObjectReference
	switch {
	case v.CephFS != nil:
		ref = v.CephFS.SecretRef
	case v.Cinder != nil:
		ref = v.Cinder.SecretRef
	case v.FlexVolume != nil:
		ref = v.FlexVolume.SecretRef
	case v.RBD != nil:
		ref = v.RBD.SecretRef
	case v.ScaleIO != nil:
		ref = v.ScaleIO.SecretRef
	case v.ISCSI != nil:
		ref = v.ISCSI.SecretRef
	case v.StorageOS != nil:
		ref = v.StorageOS.SecretRef
	case v.CSI != nil:
		ref = v.CSI.NodePublishSecretRef
	}
	return ref != nil && ref.Name == name
}

func refersToConfigMap(pod *corev1.Pod, name string) bool {
	if mirrors(pod) {
		return false
	}
	if anyEnv(pod,
		func(s *corev1.EnvVarSource) bool { return s.ConfigMapKeyRef != nil && s.ConfigMapKeyRef.Name == name },
		func(s *corev1.EnvFromSource) bool { return s.ConfigMapRef != nil && s.ConfigMapRef.Name == name }) {
		return true
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i].VolumeSource
		if v.ConfigMap != nil && v.ConfigMap.Name == name {
			return true
		}
		if v.Projected == nil {
			continue
		}
		for j := range v.Projected.Sources {
			if s := v.Projected.Sources[j].ConfigMap; s != nil && s.Name == name {
				return true
			}
		}
	}
	return false
}

// claimNames are the pod's claims, those made for its ephemeral volumes included.
func claimNames(pod *corev1.Pod) []string {
	if mirrors(pod) {
		return nil
	}
	var out []string
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			out = append(out, pod.Name+"-"+v.Name)
		}
	}
	return out
}
