package podnetwork

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

var everything = labels.Everything()

// writeTimeout bounds the write of the condition.
const writeTimeout = 10 * time.Second

// tellCondition makes NetworkUnavailable of the node what it should be, with the reasons of
// Kubernetes' route controller. fault is why pods are not reached; nil: they are.
func (k *Keeper) tellCondition(ctx context.Context, fault error) {
	now := metav1.NewTime(k.cfg.Clock.Now())
	c := corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "RouteCreated", Message: "pod network " + k.cfg.Plugin + " created the routes",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	if fault != nil {
		c.Status, c.Reason = corev1.ConditionTrue, "NoRouteCreated"
		c.Message = "pod network " + k.cfg.Plugin + ": " + fault.Error()
		c.Message = c.Message[:min(mostReason, len(c.Message))]
	}
	if k.condition == string(c.Status)+c.Message {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{c}}})
	if err == nil {
		_, err = k.cfg.Client.CoreV1().Nodes().Patch(ctx, k.cfg.Options.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	switch {
	case err == nil:
		k.condition = string(c.Status) + c.Message
	case !apierrors.IsNotFound(err) && ctx.Err() == nil: // it registers later
		k.cfg.Logger.Warn("the node's condition NetworkUnavailable is not written; it is tried again", "error", err)
	}
}
