package status

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/node/client"
)

// writers is how many patches a node has under way at most.
const writers = 4

const (
	// retryPeriod is how long a write that failed waits.
	retryPeriod = time.Second
	// firstPeriod is how long the first status of a pod waits, which says that its containers are being created, and the
	// first one after its deletion, which says that the deletion was seen. Most containers run, or have ended, by then, and
	// one write says both. A first status that is set again is written at once: the work on the pod came no further.
	firstPeriod = 500 * time.Millisecond
)

type tracked struct {
	pod      *corev1.Pod // newest object seen, for name and UID
	status   corev1.PodStatus
	version  uint64
	written  uint64
	wrote    *corev1.PodStatus // what the API holds, as far as known
	answered string            // resource version of the answer that wrote is of; empty: of none
	finished bool              // nothing runs and nothing is mounted: delete the object when it is being deleted
	lossy    bool              // the API keeps less than was written: do not fight over the rest
	busy     bool
	queued   bool
	held     bool      // the first status, which waits
	retryAt  time.Time // when a write that waits is due; zero: none waits
}

// Manager holds and writes the statuses of one node's pods.
type Manager struct {
	client client.Interface
	logger *slog.Logger
	// gone is called when the API no longer has the pod.
	gone func(uid types.UID)

	mu      sync.Mutex
	pods    map[types.UID]*tracked
	queue   []types.UID
	ctx     context.Context //nolint:containedctx // the lifetime of writes, from Start on; nil before
	closed  bool
	writing int         // goroutines that write
	retry   *time.Timer // nil: nothing waits
	retryAt time.Time   // when it fires
	wg      sync.WaitGroup
}

// New makes a manager; gone may be nil. Start it, then Close it.
func New(client client.Interface, gone func(uid types.UID), logger *slog.Logger) *Manager {
	return &Manager{client: client, gone: gone, logger: logger, pods: map[types.UID]*tracked{}}
}

// Start has statuses written until ctx ends, those set before too. While there are none to write nothing runs.
func (m *Manager) Start(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ctx = ctx
	for range m.queue {
		m.employ()
	}
}

// Close waits for what is being written; the context that Start got must have ended.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	if m.retry != nil {
		m.retry.Stop()
	}
	m.mu.Unlock()
	m.wg.Wait()
}

// employ starts one more writer if there may be one. The caller holds the lock.
func (m *Manager) employ() {
	if m.ctx == nil || m.ctx.Err() != nil || m.closed || m.writing == writers {
		return
	}
	m.writing++
	ctx := m.ctx
	m.wg.Go(func() {
		for uid, ok := m.next(ctx); ok; uid, ok = m.next(ctx) {
			m.write(ctx, uid)
		}
	})
}

// next is the pod whose status is written next; without one the writer that asks has ended.
func (m *Manager) next(ctx context.Context) (types.UID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 || ctx.Err() != nil {
		m.writing--
		return "", false
	}
	uid := m.queue[0]
	if m.queue = m.queue[1:]; len(m.queue) == 0 {
		m.queue = nil // its memory goes
	}
	return uid, true
}

// push queues a pod that is to be written. The caller holds the lock.
func (m *Manager) push(uid types.UID, t *tracked) {
	if t.queued || t.busy {
		return // the write under way looks again when it ends
	}
	t.queued = true
	m.queue = append(m.queue, uid)
	m.employ()
}

// pending tells that something of a pod is still to be written.
func (m *Manager) pending(t *tracked) bool { return t.version != t.written || m.deletable(t) }

// later has writes that wait looked at again. The caller holds the lock.
func (m *Manager) later(wait time.Duration) {
	if m.closed {
		return
	}
	at := time.Now().Add(wait)
	if m.retry != nil {
		if !at.Before(m.retryAt) {
			return
		}
		m.retry.Stop()
	}
	m.retryAt = at
	m.retry = time.AfterFunc(wait, m.again)
}

// again queues the writes that failed long enough ago.
func (m *Manager) again() {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retry = nil
	for uid, t := range m.pods {
		switch {
		case t.retryAt.IsZero() || t.queued || t.busy || !m.pending(t):
		case now.Before(t.retryAt):
			m.later(t.retryAt.Sub(now))
		default:
			m.push(uid, t)
		}
	}
}

// Get is the newest status of a pod.
func (m *Manager) Get(uid types.UID) (corev1.PodStatus, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.pods[uid]
	if t == nil {
		return corev1.PodStatus{}, false
	}
	return t.status, true
}

// Set records a pod's newest status and has it written if it changed.
func (m *Manager) Set(pod *corev1.Pod, s corev1.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.pods[pod.UID]
	if t == nil {
		// Times have second resolution in the API; compare what the API will answer.
		t = &tracked{wrote: pod.Status.DeepCopy()}
		m.pods[pod.UID] = t
	}
	t.pod = pod
	normalize(&s)
	if t.version > 0 && equality.Semantic.DeepEqual(t.status, s) {
		if t.held {
			t.held = false
			m.push(pod.UID, t)
		}
		return
	}
	t.status = s
	t.version++
	begins := t.version == 1 && s.Phase == corev1.PodPending && len(t.wrote.ContainerStatuses) == 0
	ends := runs(&s) && t.wrote.ObservedGeneration != pod.Generation
	if pod.DeletionTimestamp == nil && begins || pod.DeletionTimestamp != nil && ends {
		if at := time.Now().Add(firstPeriod); t.retryAt.IsZero() || at.Before(t.retryAt) {
			t.retryAt = at
		}
		t.held = begins
		m.later(firstPeriod)
		return
	}
	m.push(pod.UID, t)
}

// runs tells that a container has a process.
func runs(s *corev1.PodStatus) bool {
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		if slices.ContainsFunc(list, func(c corev1.ContainerStatus) bool { return c.State.Running != nil }) {
			return true
		}
	}
	return false
}

// Observe takes a pod's newest object from the API, so that patches are made against what is there.
func (m *Manager) Observe(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.pods[pod.UID]; t != nil {
		t.pod = pod
		// The echo of an answer says nothing new.
		if !t.busy && t.written == t.version && (t.answered == "" || t.answered != pod.ResourceVersion) {
			t.wrote, t.answered = pod.Status.DeepCopy(), ""
			// Somebody else wrote over what the agent owns: write it again.
			if merged := merge(pod.Status, t.status); !equality.Semantic.DeepEqual(normalized(pod.Status), normalized(merged)) && t.version > 0 && !t.lossy {
				t.version++
				m.push(pod.UID, t)
			}
		}
		if m.deletable(t) {
			m.push(pod.UID, t)
		}
	}
}

// Finish says that nothing of the pod is left on the node: after the status is written the object may go.
func (m *Manager) Finish(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.pods[pod.UID]
	if t == nil {
		t = &tracked{wrote: pod.Status.DeepCopy(), status: pod.Status}
		m.pods[pod.UID] = t
	}
	t.pod, t.finished = pod, true
	m.push(pod.UID, t)
}

// Forget drops a pod that the API no longer has.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}

func (m *Manager) deletable(t *tracked) bool { return t.finished && t.pod.DeletionTimestamp != nil }

func (m *Manager) write(ctx context.Context, uid types.UID) {
	m.mu.Lock()
	t := m.pods[uid]
	if t == nil {
		m.mu.Unlock()
		return
	}
	t.queued, t.busy, t.held, t.retryAt = false, true, false, time.Time{}
	version, status, pod, wrote := t.version, t.status, t.pod, t.wrote
	dirty, remove := t.version != t.written, m.deletable(t)
	m.mu.Unlock()

	var err error
	var result *corev1.Pod
	if dirty {
		result, err = m.patch(ctx, pod, *wrote, status)
	}
	deleted := false
	if err == nil && remove {
		deleted, err = m.remove(ctx, pod)
	}

	m.mu.Lock()
	t.busy = false
	missing := apierrors.IsNotFound(err)
	switch {
	case missing || deleted:
		delete(m.pods, uid)
	case err != nil:
		t.retryAt = time.Now().Add(retryPeriod)
		m.later(retryPeriod)
		if apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
			// What is held is not what the API has: look before trying again.
			if fresh, gerr := m.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); gerr == nil && fresh.UID == uid {
				t.pod, t.wrote, t.answered = fresh, fresh.Status.DeepCopy(), ""
			}
		}
	default:
		t.written = version
		if result != nil {
			t.wrote, t.answered = result.Status.DeepCopy(), result.ResourceVersion
			t.lossy = !equality.Semantic.DeepEqual(normalized(result.Status), normalized(merge(result.Status, status)))
		}
		if m.pending(t) {
			m.push(uid, t)
		}
	}
	m.mu.Unlock()
	if err != nil && !missing && ctx.Err() == nil {
		m.logger.Warn("could not write pod status; trying again", "pod", pod.Namespace+"/"+pod.Name, "err", err)
	}
	if (missing || deleted) && m.gone != nil {
		m.gone(uid)
	}
}

// patch writes the difference between what the API has and what it should have.
func (m *Manager) patch(ctx context.Context, pod *corev1.Pod, old, want corev1.PodStatus) (*corev1.Pod, error) {
	want = merge(old, want)
	if equality.Semantic.DeepEqual(normalized(old), normalized(want)) {
		return nil, nil
	}
	data, err := patchBody(pod.UID, &old, &want)
	if err != nil {
		return nil, fmt.Errorf("make status patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return m.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
}

func (m *Manager) remove(ctx context.Context, pod *corev1.Pod) (bool, error) {
	zero, uid := int64(0), pod.UID
	err := m.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if apierrors.IsConflict(err) {
		return true, nil // the name belongs to another pod: ours is gone
	}
	return err == nil, err
}

// owned are the conditions that the agent writes; others are left as the API has them.
func owned(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers,
		corev1.PodResizePending, corev1.PodResizeInProgress, corev1.AllContainersRestarting:
		return true
	}
	return false
}

// merge lays the agent's status over the API's, keeping what others own.
func merge(api, mine corev1.PodStatus) corev1.PodStatus {
	out := *mine.DeepCopy()
	// The order is the kubelet's: what others own, then its own ones.
	var conditions []corev1.PodCondition
	for _, c := range api.Conditions {
		if !owned(c.Type) && c.Type != corev1.PodScheduled {
			conditions = append(conditions, c)
		}
	}
	if c := findCondition(mine.Conditions, corev1.DisruptionTarget); c != nil && findCondition(conditions, c.Type) == nil {
		conditions = append(conditions, *c)
	}
	for _, t := range []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress, corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.AllContainersRestarting} {
		if c := findCondition(mine.Conditions, t); c != nil {
			conditions = append(conditions, *c)
		}
	}
	if c := cmp.Or(findCondition(api.Conditions, corev1.PodScheduled), findCondition(mine.Conditions, corev1.PodScheduled)); c != nil {
		conditions = append(conditions, *c)
	}
	out.Conditions = conditions
	out.NominatedNodeName = api.NominatedNodeName
	out.ResourceClaimStatuses = api.ResourceClaimStatuses
	// A pod that ended does not come back to life.
	if api.Phase == corev1.PodSucceeded || api.Phase == corev1.PodFailed {
		out.Phase = api.Phase
	}
	if api.StartTime != nil {
		out.StartTime = api.StartTime
	}
	return out
}

// normalize cuts times to what the API stores.
func normalize(s *corev1.PodStatus) {
	cut := func(t *metav1.Time) {
		if !t.IsZero() {
			*t = metav1.NewTime(t.Truncate(time.Second)).Rfc3339Copy()
		}
	}
	if s.StartTime != nil {
		c := *s.StartTime
		cut(&c)
		s.StartTime = &c
	}
	for i := range s.Conditions {
		cut(&s.Conditions[i].LastProbeTime)
		cut(&s.Conditions[i].LastTransitionTime)
	}
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			for _, st := range []*corev1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if st.Running != nil {
					c := *st.Running
					cut(&c.StartedAt)
					st.Running = &c
				}
				if st.Terminated != nil {
					c := *st.Terminated
					cut(&c.StartedAt)
					cut(&c.FinishedAt)
					st.Terminated = &c
				}
			}
		}
	}
}

func normalized(s corev1.PodStatus) corev1.PodStatus {
	c := *s.DeepCopy()
	normalize(&c)
	return c
}
