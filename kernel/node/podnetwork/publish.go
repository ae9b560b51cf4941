package podnetwork

import (
	"context"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// KeyAnnotation is that of a Node by which others encrypt to it. A node writes its own alone: admission lets it
// change no other Node.
const KeyAnnotation = "network.pintle.dev/public-key"

// mostKey bounds a key, in bytes.
const mostKey = 128

// publish makes the annotation of this Node the key that its plugin answered, or takes it away. What fails is tried
// again with the next round.
func (k *Keeper) publish(ctx context.Context) {
	own, err := k.nodes.Get(k.cfg.Options.NodeName)
	if err != nil {
		return // it is not registered yet
	}
	if have, there := own.Annotations[KeyAnnotation]; have == k.key && there == (k.key != "") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = writeKey(ctx, k.cfg.Client, own, k.key)
	switch {
	case err == nil:
		k.unsaid = ""
	case apierrors.IsNotFound(err) || errors.Is(err, context.Canceled):
	case k.unsaid != err.Error():
		k.unsaid = err.Error()
		k.cfg.Logger.Warn("other nodes do not know this one's public key; it is tried again", "plugin", k.cfg.Plugin, "error", err)
	}
}

// writeKey makes the annotation of a Node this key; empty: takes it away. A Node that registered anew is not written.
func writeKey(ctx context.Context, client kubernetes.Interface, node *corev1.Node, key string) (*corev1.Node, error) {
	var value any // null removes it
	if key != "" {
		value = key
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "annotations": map[string]any{KeyAnnotation: value},
	}})
	if err != nil {
		return nil, err
	}
	return client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}
