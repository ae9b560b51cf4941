package legacytokens

import corev1 "k8s.io/api/core/v1"

// secretsOf calls found with the name of each Secret of its own namespace that a pod
// uses.
func secretsOf(s *corev1.PodSpec, found func(name string)) {
	for _, r := range s.ImagePullSecrets {
		found(r.Name)
	}
	container := func(env []corev1.EnvVar, from []corev1.EnvFromSource) {
		for i := range env {
			if v := env[i].ValueFrom; v != nil && v.SecretKeyRef != nil {
				found(v.SecretKeyRef.Name)
			}
		}
		for i := range from {
			if r := from[i].SecretRef; r != nil {
				found(r.Name)
			}
		}
	}
	for i := range s.InitContainers {
		container(s.InitContainers[i].Env, s.InitContainers[i].EnvFrom)
	}
	for i := range s.Containers {
		container(s.Containers[i].Env, s.Containers[i].EnvFrom)
	}
	for i := range s.EphemeralContainers {
		container(s.EphemeralContainers[i].Env, s.EphemeralContainers[i].EnvFrom)
	}
	for i := range s.Volumes {
		volumeSecrets(&s.Volumes[i].VolumeSource, found)
	}
}

func volumeSecrets(v *corev1.VolumeSource, found func(name string)) {
	ref := func(r *corev1.LocalObjectReference) {
		if r != nil {
			found(r.Name)
		}
	}
	switch {
	case v.Secret != nil:
		found(v.Secret.SecretName)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if p := v.Projected.Sources[i].Secret; p != nil {
				found(p.Name)
			}
		}
	case v.AzureFile != nil:
		found(v.AzureFile.SecretName)
	case v.CephFS != nil:
		ref(v.CephFS.SecretRef)
	case v.Cinder != nil:
		ref(v.Cinder.SecretRef)
	case v.CSI != nil:
		ref(v.CSI.NodePublishSecretRef)
	case v.FlexVolume != nil:
		ref(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		ref(v.ISCSI.SecretRef)
	case v.RBD != nil:
		ref(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		ref(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		ref(v.StorageOS.SecretRef)
	}
}
