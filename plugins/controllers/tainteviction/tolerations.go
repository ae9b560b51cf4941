package tainteviction

import (
	"context"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// forever is what a toleration without an end lasts.
const forever = time.Duration(-1)

// noExecute are the taints by which pods are deleted.
func noExecute(taints []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			out = append(out, t)
		}
	}
	return out
}

// tolerated says whether each taint has a toleration, of which the first counts, and
// how long all of them last.
func tolerated(ctx context.Context, tolerations []corev1.Toleration, taints []corev1.Taint) (bool, time.Duration) {
	least := forever
	for i := range taints {
		found := false
		for j := range tolerations {
			t := &tolerations[j]
			// Comparison operators are off in Kubernetes 1.36.
			if !t.ToleratesTaint(klog.FromContext(ctx), &taints[i], false) {
				continue
			}
			found = true
			if d := lasts(t); d >= 0 && (least < 0 || d < least) {
				least = d
			}
			break
		}
		if !found {
			return false, 0
		}
	}
	return true, least
}

func lasts(t *corev1.Toleration) time.Duration {
	switch {
	case t.TolerationSeconds == nil, *t.TolerationSeconds > math.MaxInt64/int64(time.Second):
		return forever
	case *t.TolerationSeconds <= 0:
		return 0
	}
	return time.Duration(*t.TolerationSeconds) * time.Second
}
