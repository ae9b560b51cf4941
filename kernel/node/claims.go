package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/node/client"
	"pintle.dev/pintle/kernel/node/volume"
)

// claims reads claims and volumes with the node's own rights: those of its pods.
type claims struct{ client client.Interface }

var _ volume.Claims = claims{}

// Claim implements volume.Claims.
func (c claims) Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return c.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Volume implements volume.Claims.
func (c claims) Volume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	return c.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
}
