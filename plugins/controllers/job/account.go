package job

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// tally is the accounting of one sync.
type tally struct {
	*pass
	dirty   bool                // the status differs from what is stored
	holding sets.Set[types.UID] // pods that have the finalizer
	free    []*corev1.Pod       // pods whose finalizer goes
	full    bool                // maxUncounted was reached and pods are left
	actions map[batchv1.PodFailurePolicyAction]int
	told    counts // what the metrics know
}

// settle counts pods that ended, by writes in this order: the status with the
// pods' UIDs and the condition that the Job will end by, the finalizers, and the
// status with the counters and the condition that it ended by.
func (c *jobController) settle(ctx context.Context, p *pass, dirty bool) error {
	t := &tally{pass: p, dirty: dirty, holding: sets.New[types.UID](), actions: map[batchv1.PodFailurePolicyAction]int{}, told: p.counts()}
	for _, pod := range p.pods {
		if p.tracks(pod) {
			t.holding.Insert(pod.UID)
		}
	}
	t.countFreed()
	t.collect()
	if p.indexed {
		t.writeIndexes()
	}
	c.foretell(t)
	if err := c.flush(ctx, t); err != nil {
		return err
	}
	ends := !t.full && c.conclude(t)
	if !t.dirty && !ends {
		return nil
	}
	if ends {
		// Set before the write, since its event may come before its answer.
		c.ended.Store(p.job.UID, true)
	}
	if err := c.write(ctx, t); err != nil {
		c.ended.Delete(p.job.UID)
		return fmt.Errorf("removing uncounted pods from status: %w", err)
	}
	if ends {
		c.tellEnd(p)
	}
	return nil
}

// collect chooses the pods whose finalizer may go and notes in the status those
// that are to be counted.
func (t *tally) collect() {
	pods := slices.DeleteFunc(slices.Clone(t.pods), func(pod *corev1.Pod) bool { return !t.tracks(pod) || !t.mayFree(pod) })
	if t.indexed {
		slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(t.index(a), t.index(b)) })
	}
	uncounted := t.job.Status.UncountedTerminatedPods
	newlyDone := 0 // indexes
	for n, pod := range pods {
		t.free = append(t.free, pod)
		i := noIndex
		if t.indexed {
			i = t.index(pod)
		}
		switch {
		case pod.Status.Phase == corev1.PodSucceeded && !t.uncounted.failed.Has(pod.UID):
			if t.indexed {
				// The index itself tells that it was counted.
				if i != noIndex && !t.doneBefore.has(i) {
					newlyDone++
					t.dirty = true
				}
			} else if !t.uncounted.succeeded.Has(pod.UID) {
				uncounted.Succeeded = append(uncounted.Succeeded, pod.UID)
				t.dirty = true
			}
		case failed(t.job, pod) || t.finish != nil && t.finish.Type != batchv1.JobSuccessCriteriaMet:
			// Of a Job that ends by failure, each pod that has not ended failed.
			if t.uncounted.failed.Has(pod.UID) || t.indexed && i == noIndex {
				break
			}
			r := rule(t.job.Spec.PodFailurePolicy, pod)
			if r.action != "" {
				t.actions[r.action]++
			}
			if r.counts {
				uncounted.Failed = append(uncounted.Failed, pod.UID)
				t.dirty = true
			}
		}
		if newlyDone+len(uncounted.Succeeded)+len(uncounted.Failed) >= maxUncounted {
			// The write of the status brings the Job back here for the others.
			t.full = n < len(pods)-1
			break
		}
	}
}

// mayFree says that the pod's finalizer may go: the Job is deleted or ends, or
// the pod ended and no replacement has still to learn from it.
func (t *tally) mayFree(pod *corev1.Pod) bool {
	if t.job.DeletionTimestamp != nil || t.finish != nil || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if !failed(t.job, pod) {
		return false
	}
	if t.indexed {
		if i := t.index(pod); i != noIndex {
			waits := t.awaiting[i]
			return waits == nil || waits.UID != pod.UID
		}
	}
	return true
}

func (t *tally) writeIndexes() {
	s := &t.job.Status
	done := t.done.String()
	if done != s.CompletedIndexes {
		t.dirty = true
	}
	s.CompletedIndexes, s.Succeeded = done, int32(t.done.total())
	var lost *string
	if t.job.Spec.BackoffLimitPerIndex != nil {
		lost = ptr.To(t.failedIndexes.String())
	}
	if !ptr.Equal(s.FailedIndexes, lost) {
		s.FailedIndexes = lost
		t.dirty = true
	}
}

// foretell puts the condition that the Job will end by into the status, and
// makes finish the one that it ended by, for when all pods are counted.
func (c *jobController) foretell(t *tally) {
	if t.finish == nil {
		return
	}
	last := batchv1.JobFailed
	switch t.finish.Type {
	case batchv1.JobFailureTarget:
	case batchv1.JobSuccessCriteriaMet:
		last = batchv1.JobComplete
	default:
		return
	}
	if trueCondition(t.job, t.finish.Type) == nil && setCondition(&t.job.Status, t.finish) {
		t.dirty = true
	}
	t.finish = condition(last, corev1.ConditionTrue, t.finish.Reason, t.finish.Message, c.clock.Now())
}

// flush writes a status that changed, takes the finalizers off and counts the
// pods that lost theirs.
func (c *jobController) flush(ctx context.Context, t *tally) error {
	if t.dirty {
		if err := c.write(ctx, t); err != nil {
			return fmt.Errorf("adding uncounted pods to status: %w", err)
		}
		c.backoffs.store(t.job.UID, t.failures)
	}
	for action, n := range t.actions {
		policyActions.WithLabelValues(string(action)).Add(float64(n))
	}
	fault := c.freeAll(ctx, t)
	t.countFreed()
	if fault != nil && t.dirty {
		if err := c.write(ctx, t); err != nil {
			return fmt.Errorf("removing uncounted pods from status: %w", err)
		}
	}
	return fault
}

// freeAll takes the finalizers of t.free off and takes the pods that lost theirs
// out of t.holding.
func (c *jobController) freeAll(ctx context.Context, t *tally) error {
	uids := make([]types.UID, len(t.free))
	for i, pod := range t.free {
		uids[i] = pod.UID
	}
	c.expect.expectRemovals(t.job.UID, uids)
	faults := make([]error, len(t.free))
	each(len(t.free), func(i int) {
		err := c.freePod(ctx, t.job.UID, t.free[i])
		if err != nil {
			c.expect.removed(t.job.UID, uids[i]) // the cache will not show it
		}
		if !apierrors.IsNotFound(err) {
			faults[i] = err
		}
	})
	var fault error
	for i, err := range faults {
		if err == nil {
			t.holding.Delete(uids[i])
		} else {
			fault = fmt.Errorf("pod %s/%s: take the tracking finalizer off: %w", t.free[i].Namespace, t.free[i].Name, err)
		}
	}
	return fault
}

// countFreed moves pods without the finalizer from the UIDs to the counters.
func (t *tally) countFreed() {
	s := &t.job.Status
	move := func(uids []types.UID, counter *int32) []types.UID {
		var left []types.UID
		for _, uid := range uids {
			if t.holding.Has(uid) {
				left = append(left, uid)
			}
		}
		if n := len(uids) - len(left); n > 0 {
			*counter += int32(n)
			t.dirty = true
			return left
		}
		return uids
	}
	u := s.UncountedTerminatedPods
	u.Succeeded, u.Failed = move(u.Succeeded, &s.Succeeded), move(u.Failed, &s.Failed)
}

// conclude puts the condition that the Job ended by into the status, unless
// pods are still to be counted or to end.
func (c *jobController) conclude(t *tally) bool {
	if t.finish == nil {
		return false
	}
	s := &t.job.Status
	if u := s.UncountedTerminatedPods; len(u.Succeeded)+len(u.Failed) > 0 || t.terminating > 0 {
		return false
	}
	setCondition(s, t.finish)
	if t.finish.Type == batchv1.JobComplete {
		s.CompletionTime = &t.finish.LastTransitionTime
	}
	return true
}

// write writes the status and takes over what is stored.
func (c *jobController) write(ctx context.Context, t *tally) error {
	updated, err := c.updateStatus(ctx, t.job)
	if err != nil {
		return err
	}
	t.job, t.dirty = updated, false
	now := t.counts()
	now.tell(t.told, t.pass)
	t.told = now
	return nil
}

func (c *jobController) tellEnd(p *pass) {
	job, mode := p.job, string(completionMode(p.job))
	if p.finish.Type == batchv1.JobComplete {
		if job.Spec.Completions != nil && int(job.Status.Succeeded) > p.completions {
			c.Recorder.Event(job, corev1.EventTypeWarning, "TooManySucceededPods", "Too many succeeded pods running after completion count reached")
		}
		c.Recorder.Event(job, corev1.EventTypeNormal, "Completed", "Job completed")
		jobsFinished.WithLabelValues(mode, succeededLabel, p.finish.Reason).Inc()
		return
	}
	c.Recorder.Event(job, corev1.EventTypeWarning, p.finish.Reason, p.finish.Message)
	jobsFinished.WithLabelValues(mode, failedLabel, p.finish.Reason).Inc()
}

// counts are what the metrics of ended pods go by.
type counts struct{ succeeded, failed, done, lost int }

func (p *pass) counts() counts {
	s := &p.job.Status
	n := counts{succeeded: int(s.Succeeded), failed: int(s.Failed)}
	if p.indexed {
		n.done = parseIndexes(s.CompletedIndexes, p.completions).total()
		n.succeeded = n.done // what a smaller Job lost is not taken back
		n.lost = parseIndexes(ptr.Deref(s.FailedIndexes, ""), p.completions).total()
	}
	return n
}

// tell adds what came since.
func (n counts) tell(before counts, p *pass) {
	add := func(c interface{ Add(float64) }, now, before int) {
		if now > before {
			c.Add(float64(now - before))
		}
	}
	mode, limit := string(completionMode(p.job)), "global"
	if p.job.Spec.BackoffLimitPerIndex != nil {
		limit = "perIndex"
	}
	add(podsFinished.WithLabelValues(mode, succeededLabel), n.succeeded, before.succeeded)
	add(podsFinished.WithLabelValues(mode, failedLabel), n.failed, before.failed)
	if p.indexed {
		add(indexesFinished.WithLabelValues(succeededLabel, limit), n.done, before.done)
		add(indexesFinished.WithLabelValues(failedLabel, limit), n.lost, before.lost)
	}
}
