package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/lifecycle"
	"pintle.dev/pintle/kernel/node/sandbox"
)

// minGrace is what a container gets for its own stop even when the hook or others used the grace period up (the
// one-off extension of two seconds, 001 §13).
const minGrace = 2 * time.Second

// comeBack is how long a stop waits for a runtime whose daemon is being started again.
const comeBack = 15 * time.Second

func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || grpcstatus.Code(err) == codes.DeadlineExceeded
}

// grace is how long a container may take to stop.
func grace(pod *corev1.Pod, spec *corev1.Container, ct *cri.Container, reason killReason) time.Duration {
	seconds := int64(0)
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		seconds = *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
		if spec != nil {
			var p *corev1.Probe
			switch reason {
			case killLiveness:
				p = spec.LivenessProbe
			case killStartup:
				p = spec.StartupProbe
			}
			if p != nil && p.TerminationGracePeriodSeconds != nil {
				seconds = *p.TerminationGracePeriodSeconds
			}
		}
	case ct.DeletionGrace != nil:
		seconds = *ct.DeletionGrace
	case ct.TerminateGrace != nil:
		seconds = *ct.TerminateGrace
	}
	return time.Duration(max(seconds, 0)) * time.Second
}

// stopContainer runs the preStop hook and stops the container; both fit into the grace period. order makes a sidecar
// wait for those that must end before it; it may be nil.
func (m *Manager) stopContainer(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, ct *cri.Container, message string, reason killReason, override *time.Duration, order *stopOrder) error {
	if spec == nil {
		// The pod's object is gone: what is needed was written on the container.
		spec = &corev1.Container{Name: ct.Name, Ports: ct.Ports}
		if ct.PreStop != nil {
			spec.Lifecycle = &corev1.Lifecycle{PreStop: ct.PreStop}
		}
	}
	left := grace(pod, spec, ct, reason)
	if override != nil {
		left = *override
	}
	if message == "" {
		message = "Stopping container " + ct.Name
	}
	m.event(pod, ct.Name, corev1.EventTypeNormal, "Killing", message)
	begun := time.Now()
	if left > 0 && spec.Lifecycle != nil && spec.Lifecycle.PreStop != nil && ct.Running() {
		m.preStop(ctx, pod, spec, ct, left)
		left -= time.Since(begun)
	}
	if order != nil {
		waited := time.Now()
		order.wait(ctx, ct.Name, left)
		left -= time.Since(waited)
		defer order.done(ct.Name)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	left = max(left, minGrace) // also where no grace period was asked for, as the kubelet
	if err := m.deps.CRI.Stop(ctx, ct.ID, left.Round(time.Second)); err != nil {
		return fmt.Errorf("stop container %s (%s): %w", ct.Name, ct.ID, err)
	}
	return nil
}

// hook runs a container's hook. Where no process runs, nothing listens that it could connect to.
func (m *Manager) hook(ctx context.Context, h *corev1.LifecycleHandler, pod *corev1.Pod, c *corev1.Container, containerID, podIP string) error {
	if m.cfg.SkipVolumes && h.HTTPGet != nil {
		return nil
	}
	return lifecycle.Run(ctx, m.Exec, h, pod, c, containerID, podIP)
}

func (m *Manager) preStop(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, ct *cri.Container, left time.Duration) {
	hctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	ip := ""
	if rt := m.Runtime(pod.UID); rt != nil && len(rt.IPs) > 0 {
		ip = rt.IPs[0]
	} else if pod.Spec.HostNetwork && len(m.deps.Node.HostIPs()) > 0 {
		ip = m.deps.Node.HostIPs()[0]
	}
	if err := m.hook(hctx, spec.Lifecycle.PreStop, pod, spec, ct.ID, ip); err != nil && ctx.Err() == nil {
		m.deps.Logger.Warn("preStop hook failed", "pod", name(pod), "container", ct.Name, "err", err)
		if hctx.Err() == nil {
			m.event(pod, ct.Name, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
		}
	}
}

// stopOrder makes sidecars wait: for every main container first, then for each other, the last one of the spec ending
// first. When the grace period is over nobody waits any more.
type stopOrder struct {
	ended  map[string]chan struct{}
	before map[string][]string
}

func newStopOrder(pod *corev1.Pod, running []*cri.Container) *stopOrder {
	o := &stopOrder{ended: map[string]chan struct{}{}, before: map[string][]string{}}
	for _, ct := range running {
		o.ended[ct.Name] = make(chan struct{})
	}
	var earlier []string // must have ended before the next sidecar, walking the spec backwards
	for i := range pod.Spec.Containers {
		earlier = append(earlier, pod.Spec.Containers[i].Name)
	}
	for i := len(pod.Spec.InitContainers) - 1; i >= 0; i-- {
		c := &pod.Spec.InitContainers[i]
		if container.IsSidecar(c) {
			o.before[c.Name] = slices.Clone(earlier)
			earlier = append(earlier, c.Name)
		}
	}
	return o
}

func (o *stopOrder) wait(ctx context.Context, name string, left time.Duration) {
	t := time.NewTimer(max(left, 0))
	defer t.Stop()
	for _, other := range o.before[name] {
		ch := o.ended[other]
		if ch == nil {
			continue // does not run
		}
		select {
		case <-ch:
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (o *stopOrder) done(name string) {
	if ch := o.ended[name]; ch != nil {
		select {
		case <-ch:
		default:
			close(ch)
		}
	}
}

// stopPod stops every running container, each within its own grace period, and then the sandboxes.
func (m *Manager) stopPod(ctx context.Context, pod *corev1.Pod, rt *cri.PodStatus, override *time.Duration) error {
	var running []*cri.Container
	seen := map[string]bool{}
	for _, ct := range rt.Containers {
		if ct.Running() || ct.State == runtimeapi.ContainerState_CONTAINER_UNKNOWN {
			running = append(running, ct)
		}
	}
	order := newStopOrder(pod, running)
	errs := make([]error, len(running))
	var wg sync.WaitGroup
	for i, ct := range running {
		o := order
		if seen[ct.Name] {
			o = nil // an older container of the same name stops on its own
		}
		seen[ct.Name] = true
		wg.Go(func() {
			errs[i] = m.stopContainer(ctx, pod, container.Find(pod, ct.Name), ct, "", killOther, override, o)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, s := range rt.Sandboxes {
		if _, err := m.deps.CRI.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.Id}); err != nil && !cri.IsNotFound(err) {
			return fmt.Errorf("stop sandbox %s: %w", s.Id, err)
		}
		s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return nil
}

// terminate stops the pod, reports its end, and removes what it had on the node.
func (m *Manager) terminate(ctx context.Context, e *entry, pod *corev1.Pod, gone bool, rt *cri.PodStatus) time.Duration {
	if e.stopping.IsZero() {
		e.stopping = time.Now()
	}
	if !gone {
		m.deps.Probes.StopLiveness(pod.UID)
		m.report(e, pod, rt)
	}
	if err := m.stopPod(ctx, pod, rt, e.grace); err != nil {
		if ctx.Err() == nil {
			m.event(pod, "", corev1.EventTypeWarning, "FailedKillPod", fmt.Sprintf("error killing pod: %v", err))
			m.deps.Logger.Warn("could not stop pod; trying again", "pod", name(pod), "err", err)
		}
		return retryFast
	}
	m.deps.Probes.Remove(pod.UID)
	after, err := m.stopped(ctx, e, pod, rt)
	if err != nil {
		return retryFast
	}
	if len(after.Running()) > 0 {
		return retryFast // a container that was just being created
	}
	m.admit.release(pod.UID)
	e.released = true
	if !gone {
		m.report(e, pod, after)
	}
	if err := m.Clear(pod.UID); err != nil {
		m.deps.Logger.Warn("could not clear pod away; trying again", "pod", name(pod), "err", err)
		return time.Second
	}
	m.deps.Objects.Release(pod.UID)
	e.terminated, e.last = true, after
	if !gone {
		e.acted(after.Taken)
		m.deps.Status.Finish(pod)
		return 0
	}
	return m.cleanup(ctx, e, pod)
}

// stopped asks for what there is of a pod after a stop. A round that was interrupted may have made more than is known.
func (m *Manager) stopped(ctx context.Context, e *entry, pod *corev1.Pod, rt *cri.PodStatus) (*cri.PodStatus, error) {
	if !e.settled || len(rt.Sandboxes) == 0 {
		return m.observe(ctx, e, pod)
	}
	ids := make([]string, len(rt.Sandboxes))
	for i, s := range rt.Sandboxes {
		ids[i] = s.Id
	}
	return m.observeKnown(ctx, e, pod, ids...)
}

// cleanup removes what is left in the runtime and the logs of a pod that the API no longer has.
func (m *Manager) cleanup(ctx context.Context, e *entry, pod *corev1.Pod) time.Duration {
	rt, err := e.last, error(nil)
	if e.last = nil; rt == nil { // another try looks again
		rt, err = m.observe(ctx, e, pod)
	}
	if err == nil {
		err = m.removeSandboxes(ctx, rt)
	}
	if err == nil {
		err = os.RemoveAll(sandbox.LogDirectory(m.cfg.LogDir, pod.Namespace, pod.Name, pod.UID))
	}
	if err != nil {
		if ctx.Err() == nil {
			m.deps.Logger.Warn("could not remove pod from container runtime; trying again", "pod", name(pod), "err", err)
		}
		return time.Second
	}
	m.deps.Status.Forget(pod.UID)
	m.forget(pod.UID)
	return 0
}

func (m *Manager) removeSandboxes(ctx context.Context, rt *cri.PodStatus) error {
	for _, ct := range rt.Containers {
		if _, err := m.deps.CRI.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: ct.ID}); err != nil && !cri.IsNotFound(err) {
			return fmt.Errorf("remove container %s: %w", ct.ID, err)
		}
	}
	for _, s := range rt.Sandboxes {
		if _, err := m.deps.CRI.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.Id}); err != nil && !cri.IsNotFound(err) {
			return fmt.Errorf("stop sandbox %s: %w", s.Id, err)
		}
		if _, err := m.deps.CRI.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.Id}); err != nil && !cri.IsNotFound(err) {
			return fmt.Errorf("remove sandbox %s: %w", s.Id, err)
		}
	}
	return nil
}

// TearDown stops and removes every pod that the runtime has, with at most grace for each container, and its volumes.
// API objects stay. No worker may be running (Close).
func (m *Manager) TearDown(ctx context.Context, grace time.Duration) error {
	pods, err := m.listPatiently(ctx)
	var mu sync.Mutex
	var errs []error
	if err != nil {
		// Volumes go all the same: what runs has its own view of them.
		errs = append(errs, fmt.Errorf("tear down: %w", err))
	}
	var wg sync.WaitGroup
	for _, p := range pods {
		wg.Go(func() {
			if err := m.tearDown(ctx, p, grace); err != nil {
				mu.Lock()
				errs = append(errs, fmt.Errorf("tear down pod %s/%s: %w", p.Namespace, p.Name, err))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	uids, err := m.deps.Volumes.Pods()
	errs = append(errs, err)
	for _, uid := range uids {
		errs = append(errs, m.removeCgroups(uid), m.deps.Volumes.Unmount(uid))
	}
	return errors.Join(errs...)
}

// Clear removes what the node has of a pod that is over, and that the runtime does not know: its cgroups with stray
// processes, then its volumes. Its directory goes last, so that what could not be removed is found again.
func (m *Manager) Clear(uid types.UID) error {
	if err := m.removeCgroups(uid); err != nil {
		return err
	}
	return m.deps.Volumes.Unmount(uid)
}

func (m *Manager) removeCgroups(uid types.UID) error {
	if m.deps.Cgroups == nil {
		return nil
	}
	if err := m.deps.Cgroups.Remove(uid); err != nil {
		return fmt.Errorf("remove cgroups of pod %s: %w", uid, err)
	}
	return nil
}

// listPatiently lists what the runtime has; one whose daemon has just ended is given time to come back.
func (m *Manager) listPatiently(ctx context.Context) (map[types.UID]*cri.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, comeBack)
	defer cancel()
	var last error
	for {
		pods, err := m.deps.CRI.List(ctx)
		if err == nil || ctx.Err() == nil && grpcstatus.Code(err) != codes.Unavailable {
			return pods, err
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return nil, cmp.Or(last, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (m *Manager) tearDown(ctx context.Context, p *cri.Pod, limit time.Duration) error {
	rt, err := m.deps.CRI.PodStatus(ctx, p.UID)
	if err != nil {
		return err
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = p.Namespace, p.Name, p.UID
	m.mu.Lock()
	if e := m.entries[p.UID]; e != nil {
		pod, _ = e.object()
	}
	m.mu.Unlock()
	own := limit
	for _, ct := range rt.Running() {
		own = min(own, grace(pod, nil, ct, killOther)) // the same for all of a pod, from its object or as written on them
	}
	if err := m.stopPod(ctx, pod, rt, &own); err != nil {
		return err
	}
	return m.removeSandboxes(ctx, rt)
}
