package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// conditionTaints are the taint keys of conditions.
var conditionTaints = map[corev1.NodeConditionType]map[corev1.ConditionStatus]string{
	corev1.NodeReady: {
		corev1.ConditionFalse: corev1.TaintNodeNotReady, corev1.ConditionUnknown: corev1.TaintNodeUnreachable,
	},
	corev1.NodeMemoryPressure:     {corev1.ConditionTrue: corev1.TaintNodeMemoryPressure},
	corev1.NodeDiskPressure:       {corev1.ConditionTrue: corev1.TaintNodeDiskPressure},
	corev1.NodeNetworkUnavailable: {corev1.ConditionTrue: corev1.TaintNodeNetworkUnavailable},
	corev1.NodePIDPressure:        {corev1.ConditionTrue: corev1.TaintNodePIDPressure},
}

// ownNoSchedule are the keys whose NoSchedule taints this controller sets and
// removes.
var ownNoSchedule = []string{
	corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure,
	corev1.TaintNodeNetworkUnavailable, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable,
}

// syncTaints makes the NoSchedule taints of a node match its conditions
// (004 [7.9]), and its labels each other.
func (l *lifecycle) syncTaints(ctx context.Context, name string) error {
	node, err := l.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(l.setTaints(ctx, node, noScheduleTaints), l.syncLabels(ctx, node))
}

func noScheduleTaints(node *corev1.Node, now metav1.Time) []corev1.Taint {
	var want []string
	for _, c := range node.Status.Conditions {
		if key := conditionTaints[c.Type][c.Status]; key != "" {
			want = append(want, key)
		}
	}
	if node.Spec.Unschedulable {
		want = append(want, corev1.TaintNodeUnschedulable)
	}
	return replaceTaints(node.Spec.Taints, corev1.TaintEffectNoSchedule, ownNoSchedule, want, now)
}

// noExecuteTaints has the one taint of the node's Ready condition; a node
// that is ready, or none is wanted of, has neither.
func noExecuteTaints(taint bool) func(*corev1.Node, metav1.Time) []corev1.Taint {
	return func(node *corev1.Node, now metav1.Time) []corev1.Taint {
		var want []string
		if taint {
			if ready := condition(&node.Status, corev1.NodeReady); ready != nil {
				if key := conditionTaints[corev1.NodeReady][ready.Status]; key != "" {
					want = append(want, key)
				}
			}
		}
		return replaceTaints(node.Spec.Taints, corev1.TaintEffectNoExecute,
			[]string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}, want, now)
	}
}

// replaceTaints returns have with exactly the wanted of the own keys.
func replaceTaints(have []corev1.Taint, effect corev1.TaintEffect, own, want []string, now metav1.Time) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range have {
		if t.Effect != effect || !slices.Contains(own, t.Key) || slices.Contains(want, t.Key) {
			out = append(out, t)
		}
	}
	for _, key := range want {
		if !slices.ContainsFunc(out, func(t corev1.Taint) bool { return t.Effect == effect && t.Key == key }) {
			out = append(out, corev1.Taint{Key: key, Effect: effect, TimeAdded: &now})
		}
	}
	return out
}

// setTaints writes what f makes of a node's taints, if that is a change.
func (l *lifecycle) setTaints(ctx context.Context, node *corev1.Node, f func(*corev1.Node, metav1.Time) []corev1.Taint) error {
	now := metav1.NewTime(l.now())
	if sameTaints(f(node, now), node.Spec.Taints) {
		return nil
	}
	first := true
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !first {
			var err error
			if node, err = l.client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		first = false
		want := f(node, now)
		if sameTaints(want, node.Spec.Taints) {
			return nil
		}
		changed := node.DeepCopy()
		changed.Spec.Taints = want
		_, err := l.client.CoreV1().Nodes().Update(ctx, changed, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("node %s: set taints: %w", node.Name, err)
	}
	return nil
}

func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) })
}

func condition(status *corev1.NodeStatus, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}
