package serviceaccount

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// enforceAnnotation on a service account limits its pods to the secrets that
// the account lists.
const enforceAnnotation = "kubernetes.io/enforce-mountable-secrets"

func limitSecrets(account *corev1.ServiceAccount, pod *corev1.Pod, ephemeralOnly bool) error {
	if enforce, _ := strconv.ParseBool(account.Annotations[enforceAnnotation]); !enforce {
		return nil
	}
	allowed := sets.New[string]()
	for i := range account.Secrets {
		allowed.Insert(account.Secrets[i].Name)
	}
	check := func(kind, name string, env []corev1.EnvVar, from []corev1.EnvFromSource) error {
		for i := range env {
			if source := env[i].ValueFrom; source != nil && source.SecretKeyRef != nil && !allowed.Has(source.SecretKeyRef.Name) {
				return fmt.Errorf("%s %s with envVar %s referencing secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret",
					kind, name, env[i].Name, source.SecretKeyRef.Name, account.Name)
			}
		}
		for i := range from {
			if ref := from[i].SecretRef; ref != nil && !allowed.Has(ref.Name) {
				return fmt.Errorf("%s %s with envFrom referencing secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret",
					kind, name, ref.Name, account.Name)
			}
		}
		return nil
	}
	if ephemeralOnly {
		for i := range pod.Spec.EphemeralContainers {
			c := &pod.Spec.EphemeralContainers[i]
			if err := check("ephemeral container", c.Name, c.Env, c.EnvFrom); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].Secret; source != nil && !allowed.Has(source.SecretName) {
			return fmt.Errorf("volume with secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret", source.SecretName, account.Name)
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if err := check("init container", c.Name, c.Env, c.EnvFrom); err != nil {
			return err
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if err := check("container", c.Name, c.Env, c.EnvFrom); err != nil {
			return err
		}
	}
	pull := sets.New[string]()
	for i := range account.ImagePullSecrets {
		pull.Insert(account.ImagePullSecrets[i].Name)
	}
	for i, ref := range pod.Spec.ImagePullSecrets {
		if !pull.Has(ref.Name) {
			return fmt.Errorf("imagePullSecrets[%d].name=\"%s\" is not allowed because service account %s does not reference that imagePullSecret", i, ref.Name, account.Name)
		}
	}
	return nil
}

// referencesSecrets looks through image pull secrets, environments and volumes.
func referencesSecrets(pod *corev1.Pod) bool {
	if len(pod.Spec.ImagePullSecrets) > 0 {
		return true
	}
	inEnv := func(env []corev1.EnvVar, from []corev1.EnvFromSource) bool {
		for i := range env {
			if env[i].ValueFrom != nil && env[i].ValueFrom.SecretKeyRef != nil {
				return true
			}
		}
		for i := range from {
			if from[i].SecretRef != nil {
				return true
			}
		}
		return false
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if inEnv(containers[i].Env, containers[i].EnvFrom) {
				return true
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if inEnv(pod.Spec.EphemeralContainers[i].Env, pod.Spec.EphemeralContainers[i].EnvFrom) {
			return true
		}
	}
	for i := range pod.Spec.Volumes {
		if volumeHasSecret(&pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

func volumeHasSecret(v *corev1.Volume) bool {
	switch {
	case v.Secret != nil, v.AzureFile != nil && v.AzureFile.SecretName != "":
		return true
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if v.Projected.Sources[i].Secret != nil {
				return true
			}
		}
	}
	return v.CephFS != nil && v.CephFS.SecretRef != nil ||
		v.Cinder != nil && v.Cinder.SecretRef != nil ||
		v.FlexVolume != nil && v.FlexVolume.SecretRef != nil ||
		v.RBD != nil && v.RBD.SecretRef != nil ||
		v.ScaleIO != nil && v.ScaleIO.SecretRef != nil ||
		v.ISCSI != nil && v.ISCSI.SecretRef != nil ||
		v.StorageOS != nil && v.StorageOS.SecretRef != nil ||
		v.CSI != nil && v.CSI.NodePublishSecretRef != nil
}
