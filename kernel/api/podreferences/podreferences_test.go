package podreferences

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestNames: every place of a pod that names a Secret or a ConfigMap, and a
// reader that stops early.
func TestNames(t *testing.T) {
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	env := func(secret, configMap string) []corev1.EnvVar {
		return []corev1.EnvVar{
			{Name: "plain", Value: "x"},
			{Name: "s", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref(secret)}}},
			{Name: "c", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref(configMap)}}},
		}
	}
	from := []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("from")}},
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("from")}},
	}
	pull := ref("csi")
	volumes := []corev1.VolumeSource{
		{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}},
		{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("volume")}},
		{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "azure"}},
		{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: ref("projected")}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("projected")}},
		}}},
		{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &pull}},
		{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{ref("pull")},
		InitContainers:   []corev1.Container{{Env: env("init", "init")}},
		Containers:       []corev1.Container{{Env: env("main", "main"), EnvFrom: from}},
		EphemeralContainers: []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: env("debug", "debug")},
		}},
	}}
	for _, v := range volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{VolumeSource: v})
	}
	if got, want := slices.Collect(Secrets(pod)), []string{"pull", "init", "main", "from", "debug", "volume", "azure", "projected", "csi"}; !slices.Equal(got, want) {
		t.Errorf("secrets %v, want %v", got, want)
	}
	if got, want := slices.Collect(ConfigMaps(pod)), []string{"init", "main", "from", "debug", "volume", "projected"}; !slices.Equal(got, want) {
		t.Errorf("config maps %v, want %v", got, want)
	}
	// A sequence that goes on after its reader stopped panics.
	for _, names := range [][]string{slices.Collect(Secrets(pod)), slices.Collect(ConfigMaps(pod))} {
		for stop := range names {
			n := 0
			for range Secrets(pod) {
				if n++; n > stop {
					break
				}
			}
			n = 0
			for range ConfigMaps(pod) {
				if n++; n > stop {
					break
				}
			}
		}
	}
}
