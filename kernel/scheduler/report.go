package scheduler

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// noNodes is kube-scheduler's message for an empty cluster.
const noNodes = "no nodes available to schedule pods"

// noteLimit is the longest note an event may have, in bytes.
const noteLimit = 1024

// conditionLimit is the longest message that a condition gets, in bytes: as long as
// that of a metav1.Condition may be. Each node may have a reason of its own.
const conditionLimit = 32 << 10

func truncate(message string, limit int) string {
	if len(message) <= limit {
		return message
	}
	const more = " ..."
	cut := limit - len(more)
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + more
}

// note is one thing to tell the users of a pod by its status.
type note struct {
	pod     *v1.Pod
	reason  string // condition reason; empty: there is no condition to set
	message string
	at      time.Time
	// nominated is the node to note in the pod's status, if not nil.
	nominated *string
	// tried are closed when it was written, or was not.
	tried []chan<- struct{}
}

// reporter hands events to their recorder, and writes conditions beside the cycle:
// at most one a pod waits.
type reporter struct {
	status StatusWriter // nil: nobody is told by conditions
	events Recorder
	// patches has a queue a worker: what is told of one pod is written in order, or
	// an old word could be the last.
	patches [patchWorkers]patchQueue
	seed    maphash.Seed
	lost    chan types.UID // pods whose condition was not written
}

// patchWorkers is the number of condition writes in flight.
const patchWorkers = 4

func newReporter(d *Deps) *reporter {
	r := &reporter{seed: maphash.MakeSeed(), status: d.Status, events: d.Events, lost: make(chan types.UID, 1024)}
	for i := range r.patches {
		r.patches[i].wake = make(chan struct{}, 1)
	}
	return r
}

// success tells that a pod was scheduled.
func (r *reporter) success(pod *v1.Pod, node string) {
	if r.events != nil {
		// There is one a pod: the recorder has nothing to format.
		r.of(pod).Eventf(pod, nil, v1.EventTypeNormal, ReasonScheduled, "Binding", "%s", "Successfully assigned "+pod.Namespace+"/"+pod.Name+" to "+node)
	}
}

// of is who records events about what becomes of a pod.
func (r *reporter) of(pod *v1.Pod) Recorder {
	if each, ok := r.events.(ProfileRecorder); ok {
		return each.Of(pod.Spec.SchedulerName)
	}
	return r.events
}

// failed tells of an attempt that did not schedule a pod, by an event.
func (r *reporter) failed(pod *v1.Pod, message string) {
	if r.events != nil {
		r.of(pod).Eventf(pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", truncate(message, noteLimit))
	}
}

// failure notes in a pod why it was not scheduled. It waits for
// its turn as long as it takes: the pod may not be tried again for minutes.
func (r *reporter) failure(pod *v1.Pod, reason, message string, now time.Time, nominated *string) {
	message = truncate(message, conditionLimit)
	if r.status == nil || nominated == nil && hasCondition(pod, reason, message) {
		return
	}
	r.patch(note{pod: pod, reason: reason, message: message, at: now, nominated: nominated})
}

// patch has a pod's status written.
func (r *reporter) patch(n note) {
	r.patches[maphash.String(r.seed, string(n.pod.UID))%patchWorkers].push(n)
}

// expect has a pod's status say which node it is to have, before whatever else is to
// be written. The channel is closed when that was tried.
func (r *reporter) expect(pod *v1.Pod, node string) <-chan struct{} {
	tried := make(chan struct{})
	r.patch(note{pod: pod, nominated: &node, tried: []chan<- struct{}{tried}})
	return tried
}

// patchQueue is what is to be written of pods, in the order in which they came: one
// note a pod, the last. Those that somebody waits for are first.
type patchQueue struct {
	mu    sync.Mutex
	notes map[types.UID]note
	order []types.UID
	wake  chan struct{}
}

func (q *patchQueue) push(n note) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, waits := q.notes[n.pod.UID]
	switch {
	case len(n.tried) > 0:
		if waits {
			q.order = slices.DeleteFunc(q.order, func(uid types.UID) bool { return uid == n.pod.UID })
		}
		q.order = slices.Insert(q.order, 0, n.pod.UID)
	case !waits:
		q.order = append(q.order, n.pod.UID)
	}
	n.tried = append(before.tried, n.tried...)
	if n.nominated == nil {
		n.nominated = before.nominated
	}
	if n.reason == "" {
		n.reason, n.message, n.at = before.reason, before.message, before.at
	}
	if q.notes == nil {
		q.notes = map[types.UID]note{}
	}
	q.notes[n.pod.UID] = n
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *patchQueue) pop() (note, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		q.order = nil
		return note{}, false
	}
	uid := q.order[0]
	q.order = q.order[1:]
	n := q.notes[uid]
	delete(q.notes, uid)
	return n, true
}

// nominate has a pod's nomination written.
func (r *reporter) nominate(p *podEntry) {
	if r.status != nil {
		r.patch(note{pod: p.Object, nominated: p.unwritten})
	}
	p.unwritten = nil
}

func hasCondition(pod *v1.Pod, reason, message string) bool {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == v1.PodScheduled {
			return c.Status == v1.ConditionFalse && c.Reason == reason && c.Message == message
		}
	}
	return false
}

func (r *reporter) runPatches(ctx context.Context, q *patchQueue) {
	for {
		n, ok := q.pop()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-q.wake:
			}
			continue
		}
		patch, cancel := context.WithTimeout(ctx, writeTimeout)
		err := r.status(patch, n.pod, n.condition(), n.nominated)
		cancel()
		if ctx.Err() != nil {
			return
		}
		for _, tried := range n.tried {
			close(tried)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			select {
			case r.lost <- n.pod.UID:
			default:
			}
		}
	}
}

// condition is what a note says by a condition; nil: nothing.
func (n *note) condition() *v1.PodCondition {
	if n.reason == "" {
		return nil
	}
	condition := &v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: n.reason, Message: n.message,
		ObservedGeneration: n.pod.Generation, LastTransitionTime: metav1.NewTime(n.at),
	}
	for i := range n.pod.Status.Conditions {
		if old := &n.pod.Status.Conditions[i]; old.Type == v1.PodScheduled && old.Status == v1.ConditionFalse {
			condition.LastTransitionTime = old.LastTransitionTime
		}
	}
	return condition
}
