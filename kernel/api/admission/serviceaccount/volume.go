package serviceaccount

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// VolumePrefix begins the name of the volume of the token.
	VolumePrefix = "kube-api-access-"
	mountPath    = "/var/run/secrets/kubernetes.io/serviceaccount"
	// An hour and seven seconds mark the token as one that nobody asked for by
	// name; serviceaccounts/token extends such tokens.
	tokenSeconds = 60*60 + 7
	rootCA       = "kube-root-ca.crt"
)

// mount gives each container without a mount at mountPath the token volume.
func (p *Plugin) mount(pod *corev1.Pod) {
	name := ""
	for i := range pod.Spec.Volumes {
		if strings.HasPrefix(pod.Spec.Volumes[i].Name, VolumePrefix) {
			name = pod.Spec.Volumes[i].Name
			break
		}
	}
	present := name != ""
	if !present {
		name = p.generate(VolumePrefix)
	}
	needed := false
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if mounted(&containers[i]) {
				continue
			}
			needed = true
			containers[i].VolumeMounts = append(containers[i].VolumeMounts,
				corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: mountPath})
		}
	}
	if needed && !present {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{Projected: tokenVolume()},
		})
	}
}

func mounted(container *corev1.Container) bool {
	for i := range container.VolumeMounts {
		if container.VolumeMounts[i].MountPath == mountPath {
			return true
		}
	}
	return false
}

func tokenVolume() *corev1.ProjectedVolumeSource {
	mode, seconds := corev1.ProjectedVolumeSourceDefaultMode, int64(tokenSeconds)
	return &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: rootCA},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}
}
