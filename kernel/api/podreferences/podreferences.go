package podreferences

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// Secrets are the names of the Secrets that a pod names, as often as it does.
func Secrets(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range pod.Spec.ImagePullSecrets {
			if !yield(pod.Spec.ImagePullSecrets[i].Name) {
				return
			}
		}
		for env, from := range environments(pod) {
			for i := range env {
				if s := env[i].ValueFrom; s != nil && s.SecretKeyRef != nil && !yield(s.SecretKeyRef.Name) {
					return
				}
			}
			for i := range from {
				if s := from[i].SecretRef; s != nil && !yield(s.Name) {
					return
				}
			}
		}
		for i := range pod.Spec.Volumes {
			if !volumeSecrets(&pod.Spec.Volumes[i].VolumeSource, yield) {
				return
			}
		}
	}
}

// ConfigMaps are the names of the ConfigMaps that a pod names, as often as it does.
func ConfigMaps(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for env, from := range environments(pod) {
			for i := range env {
				if s := env[i].ValueFrom; s != nil && s.ConfigMapKeyRef != nil && !yield(s.ConfigMapKeyRef.Name) {
					return
				}
			}
			for i := range from {
				if s := from[i].ConfigMapRef; s != nil && !yield(s.Name) {
					return
				}
			}
		}
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i].VolumeSource
			if v.ConfigMap != nil && !yield(v.ConfigMap.Name) {
				return
			}
			if v.Projected == nil {
				continue
			}
			for j := range v.Projected.Sources {
				if s := v.Projected.Sources[j].ConfigMap; s != nil && !yield(s.Name) {
					return
				}
			}
		}
	}
}

// environments are those of a pod's containers, ephemeral ones included.
func environments(pod *corev1.Pod) iter.Seq2[[]corev1.EnvVar, []corev1.EnvFromSource] {
	return func(yield func([]corev1.EnvVar, []corev1.EnvFromSource) bool) {
		for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				if !yield(containers[i].Env, containers[i].EnvFrom) {
					return
				}
			}
		}
		for i := range pod.Spec.EphemeralContainers {
			if c := &pod.Spec.EphemeralContainers[i]; !yield(c.Env, c.EnvFrom) {
				return
			}
		}
	}
}

// volumeSecrets says whether to go on.
func volumeSecrets(v *corev1.VolumeSource, yield func(string) bool) bool {
	if v.Secret != nil && !yield(v.Secret.SecretName) {
		return false
	}
	if v.AzureFile != nil && v.AzureFile.SecretName != "" && !yield(v.AzureFile.SecretName) {
		return false
	}
	if v.Projected != nil {
		for i := range v.Projected.Sources {
			if s := v.Projected.Sources[i].Secret; s != nil && !yield(s.Name) {
				return false
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
	return ref == nil || yield(ref.Name)
}
