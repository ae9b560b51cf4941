package daemonset

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// surge is how many nodes of n may have a second pod.
func surge(ds *appsv1.DaemonSet, n int) (int, error) {
	if u := rolls(ds); u != nil && u.MaxSurge != nil {
		return intstr.GetScaledValueFromIntOrPercent(u.MaxSurge, n, true)
	}
	return 0, nil
}

// unavailable is how many nodes of n may be without an available pod.
func unavailable(ds *appsv1.DaemonSet, n int) (int, error) {
	if u := rolls(ds); u != nil && u.MaxUnavailable != nil {
		return intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, n, true)
	}
	return 0, nil
}

// roll replaces old pods, within the limits of the strategy.
func (r *run) roll(ctx context.Context) error {
	pods, err := r.podsByNode(ctx, false)
	if err != nil {
		return err
	}
	desired := 0
	shouldRun := map[string]bool{}
	for _, node := range r.nodes {
		if run, _ := r.placement.on(node); run {
			desired++
			shouldRun[node.Name] = true
			if _, there := pods[node.Name]; !there {
				pods[node.Name] = nil
			}
		}
	}
	maxUnavailable, err := unavailable(r.ds, desired)
	if err != nil {
		return fmt.Errorf("couldn't get unavailable numbers: invalid value for MaxUnavailable: %w", err)
	}
	maxSurge, err := surge(r.ds, desired)
	if err != nil {
		return fmt.Errorf("couldn't get unavailable numbers: invalid value for MaxSurge: %w", err)
	}
	if desired > 0 && maxUnavailable == 0 && maxSurge == 0 {
		maxUnavailable = 1 // of both limits one must let it go on
	}
	if maxSurge == 0 {
		return r.do(ctx, r.rollByDeletion(pods, maxUnavailable))
	}
	return r.do(ctx, r.rollBySurge(pods, shouldRun, desired, maxSurge))
}

// pair returns the pod of the template and the other one of a node. ok is false if
// there are several of either, which manage sees to first.
func (r *run) pair(pods []*corev1.Pod) (current, old *corev1.Pod, ok bool) {
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			continue
		}
		at := &old
		if updated(r.ds, p, r.hash) {
			at = &current
		}
		if *at != nil {
			return nil, nil, false
		}
		*at = p
	}
	return current, old, true
}

// rollByDeletion deletes old pods, in whose place manage makes new ones. Old pods
// that are not available go at once: they add nothing to what is unavailable.
func (r *run) rollByDeletion(nodes map[string][]*corev1.Pod, limit int) work {
	var w work
	var candidates []*corev1.Pod
	gone := 0
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		current, old, ok := r.pair(nodes[name])
		switch {
		case !ok, (current == nil) == (old == nil):
			gone++ // manage makes or deletes a pod there
		case current != nil:
			if !r.available(current) {
				gone++
			}
		case !r.available(old):
			w.remove = append(w.remove, old)
			gone++
		default:
			candidates = append(candidates, old)
		}
	}
	w.remove = append(w.remove, candidates[:min(len(candidates), max(0, limit-gone))]...)
	return w
}

// rollBySurge makes new pods beside old ones, and deletes an old pod when its new
// one is available.
func (r *run) rollBySurge(nodes map[string][]*corev1.Pod, shouldRun map[string]bool, desired, limit int) work {
	var w work
	var candidates []string
	var leaving []*corev1.Pod // available, on nodes that should have none
	surging, up := 0, 0
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		current, old, ok := r.pair(nodes[name])
		if !ok {
			surging++
			continue
		}
		if first := old; first != nil || current != nil {
			if first == nil {
				first = current
			}
			if r.available(first) {
				up++
			}
		}
		switch {
		case old == nil: // manage sees to it
		case current != nil && !r.available(current):
			surging++
		case current != nil:
			w.remove = append(w.remove, old)
		case !r.available(old) && !shouldRun[name]:
			w.remove = append(w.remove, old)
		case !r.available(old):
			w.create = append(w.create, name)
		case !shouldRun[name]:
			leaving = append(leaving, old)
		default:
			candidates = append(candidates, name)
		}
	}
	// A set that surges stays whole: a pod leaves its node only when another is
	// available elsewhere.
	w.remove = append(w.remove, leaving[:min(len(leaving), max(0, up-desired))]...)
	w.create = append(w.create, candidates[:min(len(candidates), max(0, limit-surging))]...)
	return w
}
