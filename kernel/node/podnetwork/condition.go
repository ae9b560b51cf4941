package podnetwork

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

var everything = labels.Everything()

// writeTimeout bounds a write of the Node.
const writeTimeout = 10 * time.Second

// The reasons of Kubernetes' route controller.
const (
	routeCreated   = "RouteCreated"
	noRouteCreated = "NoRouteCreated"
)

// ours begins each message of the condition, and tells it from one that a cloud's route
// controller writes by the same reasons.
const ours = "pod network "

// written is a condition, and the Node that has it: one that registers anew has none.
type written struct {
	node types.UID
	text string
}

// tellCondition makes NetworkUnavailable of the node what it should be, with the reasons of
// Kubernetes' route controller. fault is why pods are not reached; nil: they are.
func (k *Keeper) tellCondition(ctx context.Context, fault error) {
	now := metav1.NewTime(k.cfg.Clock.Now())
	c := corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: routeCreated, Message: ours + k.cfg.Plugin + " created the routes",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	if fault != nil {
		c.Status, c.Reason = corev1.ConditionTrue, noRouteCreated
		c.Message = ours + k.cfg.Plugin + ": " + fault.Error()
		c.Message = c.Message[:min(mostReason, len(c.Message))]
	}
	is := written{k.condition.node, string(c.Status) + c.Message}
	if k.nodes != nil {
		if n, err := k.nodes.Get(k.cfg.Options.NodeName); err == nil {
			is.node = n.UID
		}
	}
	if k.condition == is {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{c}}})
	var node *corev1.Node
	if err == nil {
		node, err = k.cfg.Client.CoreV1().Nodes().Patch(ctx, k.cfg.Options.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	switch {
	case err == nil:
		k.condition = written{node.UID, is.text}
	case !apierrors.IsNotFound(err) && ctx.Err() == nil: // it registers later
		k.cfg.Logger.Warn("the node's condition NetworkUnavailable is not written; it is tried again", "error", err)
	}
}

// Withdraw takes away the condition and the public key of an earlier start of a node that has no pod
// network any more. The condition's taint would keep pods away for good. It tries again until that is
// done or ctx ends. A condition that others wrote stays.
func Withdraw(ctx context.Context, client kubernetes.Interface, node string, log *slog.Logger) {
	said := ""
	for {
		err := withdraw(ctx, client, node)
		if err == nil || ctx.Err() != nil {
			return
		}
		if said != err.Error() {
			said = err.Error()
			log.Warn("the node's condition NetworkUnavailable or public key of an earlier pod network is not taken away; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(look):
		}
	}
}

// withdraw is one try.
func withdraw(ctx context.Context, client kubernetes.Interface, name string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // it registers without the condition
	}
	if err != nil {
		return err
	}
	if _, there := node.Annotations[KeyAnnotation]; there {
		if node, err = writeKey(ctx, client, node, ""); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeNetworkUnavailable && (c.Reason == routeCreated || c.Reason == noRouteCreated) && strings.HasPrefix(c.Message, ours)
	}) {
		return nil
	}
	// The version makes sure that it still is the condition that was looked at.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": corev1.NodeNetworkUnavailable, "$patch": "delete"}}},
	})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
