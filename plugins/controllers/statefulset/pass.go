package statefulset

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/revisions"
)

// burst is the most pods that one sync makes, and the most requests at once.
const burst = 500

// pass is one look at a set.
type pass struct {
	*keeper
	set             *appsv1.StatefulSet
	current, update *appsv1.StatefulSet // with the templates of the two revisions
	ordered         bool
	now             time.Time
	status          *appsv1.StatefulSetStatus
}

// slot is an ordinal of the set with its pod, which may not be made yet.
type slot struct {
	ordinal int
	pod     *corev1.Pod
}

func (k *keeper) newPass(set *appsv1.StatefulSet, current, update *appsv1.ControllerRevision, now time.Time) (*pass, error) {
	p := &pass{keeper: k, set: set, now: now, ordered: set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement}
	data, err := templatePatch(set)
	if err != nil {
		return nil, err
	}
	p.update = set
	if !bytes.Equal(update.Data.Raw, data) {
		if p.update, err = restore(set, update); err != nil {
			return nil, err
		}
	}
	p.current = p.update
	if !revisions.Equal(current, update) {
		if p.current, err = restore(set, current); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// newPod builds the missing pod of an ordinal, at the revision that it should have now.
func (p *pass) newPod(ordinal int) *corev1.Pod {
	start, _ := bounds(p.set)
	strategy := p.set.Spec.UpdateStrategy
	old := 0 // ordinals from the start that keep the current revision
	if strategy.RollingUpdate != nil {
		old = int(ptr.Deref(strategy.RollingUpdate.Partition, 0))
	} else if strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		old = int(p.set.Status.CurrentReplicas)
	}
	if ordinal < start+old {
		return newPod(p.current, ordinal, p.status.CurrentRevision)
	}
	return newPod(p.update, ordinal, p.status.UpdateRevision)
}

// layout sorts the pods into those that the set wants, ascending, with what is
// missing between them, and those that it does not, descending. It stops behind
// as many missing ones as this sync may make, whatever number of replicas is asked.
func (p *pass) layout(pods []*corev1.Pod) (wanted, condemned []slot, whole bool) {
	start, end := bounds(p.set)
	at := map[int]*corev1.Pod{}
	for _, pod := range pods {
		n, _ := ordinalOf(p.set, pod) // they are members
		if n >= start && n < end {
			at[n] = pod
		} else {
			condemned = append(condemned, slot{n, pod})
		}
	}
	slices.SortFunc(condemned, func(a, b slot) int { return cmp.Compare(b.ordinal, a.ordinal) })
	missing := 0
	for n := start; n < end; n++ {
		pod := at[n]
		if pod == nil {
			if missing == burst {
				return wanted, condemned, false
			}
			missing++
			pod = p.newPod(n)
		}
		wanted = append(wanted, slot{n, pod})
	}
	return wanted, condemned, true
}

// run brings the pods nearer to what the set asks and counts them.
func (p *pass) run(ctx context.Context, pods []*corev1.Pod) error {
	p.count(pods)
	if p.set.DeletionTimestamp != nil {
		return nil // what it has goes with it
	}
	wanted, condemned, whole := p.layout(pods)
	stop, err := p.each(wanted, func(s *slot) (bool, error) { return p.keep(ctx, s) })
	if !stop && err == nil && whole {
		stop, err = p.each(condemned, func(s *slot) (bool, error) {
			if p.ownersMatch(p.update, s.pod, s.ordinal) {
				return false, nil
			}
			err := p.updateOwners(ctx, p.update, s.pod, s.ordinal)
			return err != nil, err
		})
		if !stop && err == nil {
			unhealthy := p.firstUnavailable(wanted, condemned)
			stop, err = p.each(condemned, func(s *slot) (bool, error) { return p.end(ctx, s.pod, unhealthy) })
		}
	}
	if stop || err != nil || !whole {
		return err
	}
	return p.roll(ctx, wanted)
}

// each calls fn for the slots: one after the other until one stops if the set is
// ordered, otherwise for all, in batches of 1, 2, 4 … until one fails.
func (p *pass) each(slots []slot, fn func(*slot) (bool, error)) (stop bool, err error) {
	if p.ordered {
		for i := range slots {
			if stop, err := fn(&slots[i]); stop || err != nil {
				return true, err
			}
		}
		return false, nil
	}
	for size := 1; len(slots) > 0; size = min(2*size, burst) {
		batch := slots[:min(size, len(slots))]
		slots = slots[len(batch):]
		faults := make([]error, len(batch))
		var wg sync.WaitGroup
		for i := range batch {
			wg.Go(func() { _, faults[i] = fn(&batch[i]) })
		}
		wg.Wait()
		if err := errors.Join(faults...); err != nil {
			return true, err
		}
	}
	return false, nil
}

func (p *pass) firstUnavailable(wanted, condemned []slot) *corev1.Pod {
	for _, s := range wanted {
		if unavailable(s.pod, p.set.Spec.MinReadySeconds, p.now) {
			return s.pod
		}
	}
	for _, s := range slices.Backward(condemned) {
		if unavailable(s.pod, p.set.Spec.MinReadySeconds, p.now) {
			return s.pod
		}
	}
	return nil
}

// keep makes the pod of a slot, replaces one that finished, and corrects one
// that lost its identity. In an ordered set it stops at one that is not available.
func (p *pass) keep(ctx context.Context, s *slot) (stop bool, err error) {
	pod := s.pod
	if finished(pod) {
		if terminating(pod) {
			return true, nil
		}
		return true, p.deletePod(ctx, p.set, pod)
	}
	if !created(pod) {
		if p.claimsStale(p.set, pod, s.ordinal) {
			return true, nil // the end of the claim enqueues the set
		}
		if err := p.createPod(ctx, p.set, pod, s.ordinal); err != nil || p.ordered {
			return true, err
		}
	}
	if pod.Status.Phase == corev1.PodPending {
		if err := p.createClaims(ctx, p.set, pod, s.ordinal); err != nil {
			return true, err
		}
		if err := p.updateOwners(ctx, p.set, pod, s.ordinal); err != nil {
			p.told(p.set, "Update", pod.Name, err)
			return true, err
		}
	}
	if p.ordered {
		yes, _ := available(pod, p.set.Spec.MinReadySeconds, p.now)
		if terminating(pod) || !runningAndReady(pod) || !yes {
			return true, nil
		}
	}
	if !created(pod) || identityMatches(pod) && storageMatches(p.set, pod, s.ordinal) && p.ownersMatch(p.update, pod, s.ordinal) {
		return false, nil
	}
	err = p.updatePod(ctx, p.update, pod, s.ordinal)
	return err != nil, err
}

// end deletes a pod that the set does not want any more. In an ordered set the
// other pods must be available, so that one at a time goes.
func (p *pass) end(ctx context.Context, pod, unhealthy *corev1.Pod) (stop bool, err error) {
	if terminating(pod) {
		return p.ordered, nil
	}
	yes, _ := available(pod, p.set.Spec.MinReadySeconds, p.now)
	if p.ordered && pod != unhealthy && (!runningAndReady(pod) || !yes) {
		return true, nil
	}
	return true, p.deletePod(ctx, p.set, pod)
}

// roll deletes the pod of the largest ordinal that has not the new revision. It
// waits for each pod above it.
func (p *pass) roll(ctx context.Context, wanted []slot) error {
	strategy := p.set.Spec.UpdateStrategy
	if strategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	lowest := 0
	if strategy.RollingUpdate != nil {
		lowest = int(ptr.Deref(strategy.RollingUpdate.Partition, 0))
	}
	for i := len(wanted) - 1; i >= lowest; i-- {
		pod := wanted[i].pod
		if revisionOf(pod) != p.status.UpdateRevision && !terminating(pod) {
			if err := p.deletePod(ctx, p.set, pod); err != nil {
				return err
			}
			p.status.CurrentReplicas = max(0, p.status.CurrentReplicas-1) // an adopted pod may have no revision
			return nil
		}
		if unavailable(pod, p.set.Spec.MinReadySeconds, p.now) {
			return nil
		}
	}
	return nil
}
