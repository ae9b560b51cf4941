package podnetwork

import (
	"context"
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	var value any // null removes it
	if k.key != "" {
		value = k.key
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": own.UID, "annotations": map[string]any{KeyAnnotation: value},
	}})
	if err == nil {
		_, err = k.cfg.Client.CoreV1().Nodes().Patch(ctx, own.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, context.Canceled) {
		k.cfg.Logger.Warn("other nodes do not know this one's public key; it is tried again", "plugin", k.cfg.Plugin, "error", err)
	}
}
