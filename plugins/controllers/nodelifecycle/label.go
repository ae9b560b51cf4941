package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// betaLabels are the old names of labels, which follow the new ones.
var betaLabels = map[string]string{
	corev1.LabelOSStable:   "beta.kubernetes.io/os",
	corev1.LabelArchStable: "beta.kubernetes.io/arch",
}

// syncLabels gives a node the old names of its labels too.
func (l *lifecycle) syncLabels(ctx context.Context, node *corev1.Node) error {
	set := map[string]string{}
	for stable, beta := range betaLabels {
		if value, ok := node.Labels[stable]; ok {
			if old, ok := node.Labels[beta]; !ok || old != value {
				set[beta] = value
			}
		}
	}
	if len(set) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": set}})
	if err != nil {
		return err
	}
	_, err = l.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("node %s: set labels: %w", node.Name, err)
	}
	return nil
}
