package serviceaccount

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"pintle.dev/pintle/kernel/api/podreferences"
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
	for range podreferences.Secrets(pod) {
		return true
	}
	return false
}
