package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/probe"
	"pintle.dev/pintle/kernel/node/status"
	"pintle.dev/pintle/kernel/node/volume"
)

// Waits between rounds that failed.
const (
	retryFast = 250 * time.Millisecond
	retrySlow = 5 * time.Second
	// readTimeout is how long one read from the API may take.
	readTimeout = 10 * time.Second
	// A volume that cannot be mounted is tried again after the first of these, and then after twice as long each time.
	retryMount, retryMountMax = 500 * time.Millisecond, 2*time.Minute + 2*time.Second
)

// sync makes one round for a pod and answers when the next is due.
func (m *Manager) sync(ctx context.Context, e *entry) time.Duration {
	pod, gone := e.object()
	if e.terminated {
		if gone {
			return m.cleanup(ctx, e, pod)
		}
		m.deps.Status.Finish(pod)
		return 0
	}
	rt, err := m.first(ctx, e, pod)
	if err != nil {
		if ctx.Err() == nil {
			m.deps.Logger.Warn("could not read pod from container runtime", "pod", name(pod), "err", err)
			m.event(pod, "", corev1.EventTypeWarning, "FailedSync", fmt.Sprintf("error determining status: %v", err))
		}
		return retrySlow
	}
	e.acted(rt.Taken)
	if pod.DeletionTimestamp != nil || gone || ended(pod.Status.Phase) {
		e.terminating = true
	}
	if e.terminating {
		return m.terminate(ctx, e, pod, gone, rt)
	}
	if !e.admitted {
		if refused := m.admitted(ctx, pod, len(rt.Running()) > 0); refused != nil {
			m.event(pod, "", corev1.EventTypeWarning, refused.reason, refused.message)
			e.end = &end{refused.reason, "Pod was rejected: " + refused.message}
			e.terminating = true
			return m.terminate(ctx, e, pod, gone, rt)
		}
		e.admitted = true
	}
	pod = m.settle(e, pod)
	if why := e.eviction(); why.message != "" {
		m.event(pod, "", corev1.EventTypeWarning, "Evicted", why.message)
		grace := evictionGrace
		e.end, e.terminating, e.grace = &end{"Evicted", why.message}, true, &grace
		if why.disruption {
			e.disrupted = why.message
		}
		return m.terminate(ctx, e, pod, gone, rt)
	}
	deadline, over := overdue(pod, m.previous(pod).StartTime, time.Now())
	if over {
		const message = "Pod was active on the node longer than the specified deadline"
		m.event(pod, "", corev1.EventTypeNormal, "DeadlineExceeded", message)
		e.end, e.terminating = &end{"DeadlineExceeded", message}, true
		return m.terminate(ctx, e, pod, gone, rt)
	}
	next, rt, err := m.bringUp(ctx, e, pod, rt)
	if ctx.Err() != nil {
		return retryFast // interrupted: the next round knows why
	}
	if text := fmt.Sprint(err); err == nil {
		e.complaint = ""
	} else if text != e.complaint {
		// Said once, not with each try.
		e.complaint = text
		m.deps.Logger.Info("pod is not as it should be yet", "pod", name(pod), "err", err)
	}
	s := m.report(e, pod, rt)
	if ended(s.Phase) && err == nil {
		e.terminating = true
		return m.terminate(ctx, e, pod, gone, rt)
	}
	if deadline > 0 && (next == 0 || deadline < next) {
		next = deadline
	}
	if e.sizes.pending != nil && (next == 0 || retryResize < next) {
		next = retryResize
	}
	if next == 0 || next > m.cfg.Resync {
		next = m.cfg.Resync
	}
	return next
}

func name(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// overdue answers how long the pod may still be active, and whether its time is over.
func overdue(pod *corev1.Pod, start *metav1.Time, now time.Time) (time.Duration, bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return 0, false
	}
	begun := now // the clock starts with the first status
	if start != nil {
		begun = start.Time
	}
	left := time.Duration(*pod.Spec.ActiveDeadlineSeconds)*time.Second - now.Sub(begun)
	return max(left, time.Millisecond), left <= 0
}

// first is what the runtime has of the pod at the beginning of a round. A pod that no agent ever reported, that the
// runtime did not have when it was listed, and of which it told nothing since, needs no question.
func (m *Manager) first(ctx context.Context, e *entry, pod *corev1.Pod) (*cri.PodStatus, error) {
	e.mu.Lock()
	told := !e.changed.IsZero()
	e.mu.Unlock()
	if pod.DeletionTimestamp != nil && e.stopping.IsZero() && e.settled && !e.behind() {
		// What is to be stopped is known, as it is to the kubelet. Whether it has stopped is asked for.
		if rt := m.Runtime(pod.UID); rt != nil {
			return rt, nil
		}
	}
	if e.known || told || pod.Status.StartTime != nil || m.deps.Absent == nil || !m.deps.Absent(pod.UID) {
		return m.observe(ctx, e, pod)
	}
	e.known = true // by the next round, whatever comes of this one
	return &cri.PodStatus{UID: pod.UID, NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, Taken: time.Now()}, nil
}

// observe asks the runtime about the pod.
func (m *Manager) observe(ctx context.Context, e *entry, pod *corev1.Pod) (*cri.PodStatus, error) {
	return m.observed(e, pod, func() (*cri.PodStatus, error) { return m.deps.CRI.PodStatus(ctx, pod.UID) })
}

// observeKnown is observe of a pod that has these sandboxes and no others.
func (m *Manager) observeKnown(ctx context.Context, e *entry, pod *corev1.Pod, sandboxes ...string) (*cri.PodStatus, error) {
	return m.observed(e, pod, func() (*cri.PodStatus, error) { return m.deps.CRI.PodStatusOf(ctx, pod.UID, sandboxes) })
}

func (m *Manager) observed(e *entry, pod *corev1.Pod, ask func() (*cri.PodStatus, error)) (*cri.PodStatus, error) {
	rt, err := ask()
	if err != nil {
		return nil, err
	}
	e.known = true
	rt.Namespace, rt.Name = pod.Namespace, pod.Name
	m.mu.Lock()
	m.rt[pod.UID] = rt
	m.mu.Unlock()
	return rt, nil
}

// bringUp does what is missing and answers the runtime's state afterwards.
func (m *Manager) bringUp(ctx context.Context, e *entry, pod *corev1.Pod, rt *cri.PodStatus) (time.Duration, *cri.PodStatus, error) {
	e.settled, e.sandbox = false, ""
	if restartsAll(pod, rt) {
		wait, err := m.restartAll(ctx, e, pod, rt)
		if err != nil || wait > 0 {
			return cmp.Or(wait, retryFast), rt, err
		}
		if rt, err = m.observe(ctx, e, pod); err != nil {
			return retryFast, &cri.PodStatus{}, err
		}
	}
	todo := compute(pod, rt, probeResults{m.deps.Probes})
	if len(rt.Sandboxes) == 0 {
		m.report(e, pod, rt) // Pending and its reason are seen before the work begins
	}
	if !pod.Spec.HostNetwork && todo.sandbox {
		if err := m.deps.Node.NetworkReady(); err != nil {
			m.event(pod, "", corev1.EventTypeWarning, "NetworkNotReady", fmt.Sprintf("network is not ready: %v", err))
			return retrySlow, rt, err
		}
	}
	if !m.cfg.SkipVolumes {
		if err := m.deps.Volumes.Mount(ctx, pod); err != nil {
			if ctx.Err() != nil {
				return 0, rt, err
			}
			m.failedMount(pod, err)
			// A pod that runs already goes on with the files it has, and one that ran does while the API is away.
			if !e.hasRun || len(rt.Running()) == 0 && !away(err) {
				e.volumesBad = true
				e.mountWait = min(max(retryMount, 2*e.mountWait), retryMountMax)
				return e.mountWait, rt, err
			}
		}
		e.volumesBad = false
		e.mountWait = 0
	}
	m.deps.Probes.Set(pod)
	unsized := m.resize(ctx, e, pod, rt, &todo)
	next, err := m.carryOut(ctx, e, pod, rt, todo)
	if ctx.Err() != nil {
		return 0, rt, ctx.Err()
	}
	var after *cri.PodStatus
	var oerr error
	if e.sandbox != "" {
		after, oerr = m.observeKnown(ctx, e, pod, e.sandbox)
	} else {
		after, oerr = m.observe(ctx, e, pod)
	}
	if oerr != nil {
		return retryFast, rt, errors.Join(err, oerr)
	}
	if len(after.Running()) > 0 {
		e.hasRun = true
	}
	if left := compute(pod, after, probeResults{m.deps.Probes}); err == nil && left.none() {
		e.acted(after.Taken) // another round would do nothing
		e.settled = true
	}
	m.resized(e, pod, after, unsized)
	if unsized != nil && (next == 0 || retryResize < next) {
		next = retryResize
	}
	return next, after, err
}

// away reports whether all that keeps volumes from being brought up to date is that the API does not answer.
func away(err error) bool {
	switch e := err.(type) { //nolint:errorlint // each of those that were joined, at any depth
	case *url.Error: // a request without an answer; an error number of this machine is a net.Error too, and no such
		var status apierrors.APIStatus
		return e.Op != "parse" && !errors.As(e.Err, &status)
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(one error) bool { return !away(one) })
	case interface{ Unwrap() error }:
		return away(e.Unwrap())
	}
	return false
}

func (m *Manager) failedMount(pod *corev1.Pod, err error) {
	var list interface{ Unwrap() []error }
	errs := []error{err}
	if errors.As(err, &list) {
		errs = list.Unwrap()
	}
	for _, err := range errs {
		var setUp *volume.SetUpError
		if errors.As(err, &setUp) {
			m.event(pod, "", corev1.EventTypeWarning, "FailedMount", setUp.Error())
		} else {
			m.event(pod, "", corev1.EventTypeWarning, "Failed", fmt.Sprintf("error making pod data directories: %v", err))
		}
	}
}

// previous is the status last reported, or the API's.
func (m *Manager) previous(pod *corev1.Pod) corev1.PodStatus {
	if s, ok := m.deps.Status.Get(pod.UID); ok {
		return s
	}
	return pod.Status
}

// report generates the pod's status and hands it to the status manager. A pod whose phase is terminal no longer counts
// for schedulers: that phase is told once the node itself has released what the pod held, not before. The answer has
// it at once.
func (m *Manager) report(e *entry, pod *corev1.Pod, rt *cri.PodStatus) corev1.PodStatus {
	in := status.Input{
		Pod: pod, Runtime: rt, Previous: m.previous(pod), RuntimeName: m.deps.Node.RuntimeName(),
		Started: m.deps.Probes.Started, Ready: m.deps.Probes.Ready,
		Waiting:     func(name string) (status.Waiting, bool) { w, ok := e.waiting[name]; return w, ok },
		Message:     e.message,
		HostIPs:     m.deps.Node.HostIPs(),
		Terminating: e.terminating,
		Now:         time.Now(),
		Unsettled:   map[string]bool{},
		Disrupted:   e.disrupted, RestartingAll: e.restartingAll,
	}
	if !e.terminating {
		in.Resize = e.sizes.conditions()
		if e.sizes.progress != nil {
			for _, x := range changes(pod, rt, m.deps.Node.MemoryCapacity()) {
				in.Unsettled[x.spec.Name] = true
			}
		}
	}
	if e.end != nil {
		in.Phase, in.Reason, in.StatusMessage = corev1.PodFailed, e.end.reason, e.end.message
		if !e.terminated && len(rt.Running()) > 0 {
			in.Phase = "" // not failed before it has stopped
		}
	}
	s := status.Generate(in)
	told := s
	if held := e.admitted || e.end == nil; held && !e.released && ended(s.Phase) && !ended(in.Previous.Phase) {
		told.Phase, told.Reason, told.Message = in.Previous.Phase, in.Previous.Reason, in.Previous.Message
	}
	m.deps.Status.Set(pod, told)
	return s
}

func ended(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

type probeResults struct{ m *probe.Manager }

func (p probeResults) startup(id string) (bool, bool)  { return p.m.Result(probe.Startup, id) }
func (p probeResults) liveness(id string) (bool, bool) { return p.m.Result(probe.Liveness, id) }

var _ results = probeResults{}

// runtimeHandler finds the CRI handler of the pod's RuntimeClass.
func (m *Manager) runtimeHandler(ctx context.Context, pod *corev1.Pod) (string, error) {
	if pod.Spec.RuntimeClassName == nil || *pod.Spec.RuntimeClassName == "" {
		return m.cfg.DefaultHandler, nil
	}
	// A read is carried through though the round be interrupted: the API counts one that is given up as its own timeout.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	rc, err := m.deps.Client.NodeV1().RuntimeClasses().Get(ctx, *pod.Spec.RuntimeClassName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("failed to get sandbox runtime: %w", err)
	}
	return rc.Handler, nil
}

// sandboxOf asks for the status of a sandbox that was just made.
func (m *Manager) sandboxOf(ctx context.Context, id string) (*runtimeapi.PodSandboxStatus, error) {
	resp, err := m.deps.CRI.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		return nil, err
	}
	if resp.Status == nil {
		return nil, fmt.Errorf("sandbox %s: the runtime answered without status", id)
	}
	return resp.Status, nil
}
