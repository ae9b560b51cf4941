package job

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// manage makes or deletes pods, and returns how many are active then.
func (c *jobController) manage(ctx context.Context, p *pass) (active int32, action string, err error) {
	active = int32(len(p.active))
	if isSuspended(p.job) {
		gone, err := c.remove(ctx, p, p.surplus(len(p.active)))
		return active - gone, actionDeleted, err
	}
	want := p.wantActive()
	if surplus := p.surplus(int(max(0, active-want))); len(surplus) > 0 {
		// A sync that deletes makes no pods: what is missing then shows in the
		// next one.
		gone, err := c.remove(ctx, p, surplus[:min(len(surplus), burst)])
		return active - gone, actionDeleted, err
	}
	missing := want - active
	if replacesFailedOnly(p.job) {
		missing -= p.terminating
	}
	if missing <= 0 {
		return active, actionTracking, nil
	}
	now := c.clock.Now()
	if p.job.Spec.BackoffLimitPerIndex == nil {
		if left := p.failures.left(now); left > 0 {
			c.delayed(p.job, min(left, longestLook))
			return active, actionCreated, nil
		}
	}
	missing = min(missing, burst)
	var numbers []int
	if p.indexed {
		numbers = p.pendingIndexes(int(missing))
		if p.job.Spec.BackoffLimitPerIndex != nil {
			due, left := p.dueIndexes(numbers, now)
			if left > 0 {
				c.delayed(p.job, min(left, longestLook))
				return active, actionCreated, nil
			}
			numbers = due
		}
		missing = int32(len(numbers))
	}
	made, err := c.create(ctx, p, int(missing), numbers)
	return active + made, actionCreated, err
}

// wantActive is how many pods should be active.
func (p *pass) wantActive() int32 {
	parallelism := ptr.Deref(p.job.Spec.Parallelism, 1)
	if p.job.Spec.Completions == nil {
		if p.succeeded > 0 {
			return int32(len(p.active)) // those that run may end, no other begins
		}
		return parallelism
	}
	return max(0, min(parallelism, int32(p.completions)-p.succeeded))
}

// create makes n pods, of the given indexes if the Job is indexed, in batches
// that double while they succeed, so that a quota that refuses is not flooded.
// It returns how many were made.
func (c *jobController) create(ctx context.Context, p *pass, n int, numbers []int) (int32, error) {
	job := p.job
	t := job.Spec.Template.DeepCopy()
	if p.indexed {
		addIndexVariable(t)
	}
	if !slices.Contains(t.Finalizers, batchv1.JobTrackingFinalizer) {
		t.Finalizers = append(t.Finalizers, batchv1.JobTrackingFinalizer)
	}
	c.expect.expectCreations(job.UID, n)
	made, refused, tried := 0, 0, 0
	var fault error
	for size := min(n, 1); size > 0 && fault == nil; size = min(2*size, n-tried) {
		faults := make([]error, size)
		each(size, func(i int) {
			of, prefix := t, namePrefix(job.Name)
			if p.indexed {
				of, prefix = p.templateOf(t, numbers[tried+i]), indexPrefix(job.Name, numbers[tried+i])
			}
			faults[i] = c.createPod(ctx, job, of, prefix)
		})
		tried += size
		for _, err := range faults {
			switch {
			case err == nil:
				made++
			case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
				// Every creation fails there, and the Job goes too: what is still
				// expected holds it back until then.
			default:
				refused++
				fault = err
			}
		}
	}
	// These will not be seen.
	c.expect.created(job.UID, refused+n-tried)
	p.countCreations(made, refused)
	return int32(made), fault
}

func (p *pass) countCreations(made, refused int) {
	reason := "new"
	switch {
	case ptr.Deref(p.job.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed) == batchv1.Failed:
		if p.failed > 0 {
			reason = "recreate_failed"
		} else if p.terminating > 0 {
			reason = "recreate_terminating_or_failed"
		}
	case p.failed > 0 || p.terminating > 0:
		reason = "recreate_terminating_or_failed"
	}
	podsCreated.WithLabelValues(reason, succeededLabel).Add(float64(made))
	podsCreated.WithLabelValues(reason, failedLabel).Add(float64(refused))
}

// remove deletes pods that are too many. They do not count as failed, so their
// finalizers go first. It returns how many went.
func (c *jobController) remove(ctx context.Context, p *pass, pods []*corev1.Pod) (int32, error) {
	uids := make([]types.UID, len(pods))
	for i, pod := range pods {
		uids[i] = pod.UID
	}
	c.expect.expectDeletions(p.job.UID, uids)
	return c.deleteAll(p, pods, func(pod *corev1.Pod) error {
		if err := c.freePod(ctx, p.job.UID, pod); err != nil {
			c.expect.deleted(p.job.UID, pod.UID)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("removing completion finalizer: %w", err)
		}
		return c.deletePod(ctx, p.job, pod)
	})
}

// stop deletes all active pods of a Job that ends; their finalizers stay until
// they are counted. It returns how many went.
func (c *jobController) stop(ctx context.Context, p *pass) (int32, error) {
	return c.deleteAll(p, p.active, func(pod *corev1.Pod) error { return c.deletePod(ctx, p.job, pod) })
}

func (c *jobController) deleteAll(p *pass, pods []*corev1.Pod, del func(*corev1.Pod) error) (int32, error) {
	faults := make([]error, len(pods))
	var gone, ready atomic.Int32
	each(len(pods), func(i int) {
		if faults[i] = del(pods[i]); faults[i] != nil {
			return
		}
		gone.Add(1)
		if readyCondition(pods[i]) != nil {
			ready.Add(1)
		}
	})
	p.terminating += gone.Load()
	p.ready -= ready.Load()
	for _, err := range faults {
		if err != nil {
			return gone.Load(), err
		}
	}
	return gone.Load(), nil
}
