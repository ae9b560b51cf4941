package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
)

// retryResize is how often a resize that the node has no room for is looked at
// again.
const retryResize = 5 * time.Second

// sizes is what is kept of a pod's resizing in place (KEP-1287).
type sizes struct {
	// allocated are the resources that the node has granted, by container; nil
	// before the pod was looked at.
	allocated map[string]corev1.ResourceRequirements
	pending   *corev1.PodCondition // the spec asks for more than was granted
	progress  *corev1.PodCondition // what was granted is not in force yet
}

func (s *sizes) conditions() []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range []*corev1.PodCondition{s.pending, s.progress} {
		if c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// resizable are the containers whose resources may change while they run.
func resizable(pod *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; container.IsSidecar(c) {
			out = append(out, c)
		}
	}
	for i := range pod.Spec.Containers {
		out = append(out, &pod.Spec.Containers[i])
	}
	return out
}

// granted reads what the node had granted from the status, as an earlier run
// of the agent wrote it, and from the spec where nothing was written.
func granted(pod *corev1.Pod) map[string]corev1.ResourceRequirements {
	all := map[string]corev1.ResourceRequirements{}
	for _, c := range resizable(pod) {
		all[c.Name] = *c.Resources.DeepCopy()
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		r, ok := all[s.Name]
		if !ok || s.State.Running == nil || s.Resources == nil {
			continue
		}
		r.Limits, r.Requests = s.Resources.DeepCopy().Limits, s.Resources.DeepCopy().Requests
		if s.AllocatedResources != nil {
			r.Requests = s.AllocatedResources.DeepCopy()
		}
		all[s.Name] = r
	}
	return all
}

// withResources is the pod with resources by container in place of those that its spec asks for.
func withResources(pod *corev1.Pod, resources map[string]corev1.ResourceRequirements) *corev1.Pod {
	out := pod.DeepCopy()
	for _, c := range resizable(out) {
		c.Resources = resources[c.Name]
	}
	return out
}

// settle grants a changed spec its resources where the node has them, and
// answers the pod with what is granted in place of what is asked for.
func (m *Manager) settle(e *entry, pod *corev1.Pod) *corev1.Pod {
	s := &e.sizes
	if s.allocated == nil {
		s.allocated = granted(pod)
		for i := range pod.Status.Conditions {
			if c := pod.Status.Conditions[i]; c.Type == corev1.PodResizeInProgress {
				s.progress = &c
			}
		}
	}
	same := true
	for _, c := range resizable(pod) {
		same = same && equality.Semantic.DeepEqual(s.allocated[c.Name], c.Resources)
	}
	if same {
		s.pending = nil
		return pod
	}
	if refused := m.admit.resize(pod, m.deps.Node.Object()); refused != nil {
		if s.pending == nil || s.pending.ObservedGeneration != pod.Generation || s.pending.Reason != refused.reason {
			s.pending = condition(corev1.PodResizePending, s.pending, refused.reason, refused.message, pod.Generation)
			m.event(pod, "", corev1.EventTypeWarning, "Resize"+refused.reason, summary("Pod resize "+refused.reason, pod, refused.message))
		}
		s.pending.Message = refused.message
		out := withResources(pod, s.allocated)
		m.admit.keep(out)
		return out
	}
	for _, c := range resizable(pod) {
		s.allocated[c.Name] = *c.Resources.DeepCopy()
	}
	s.pending = nil
	s.progress = condition(corev1.PodResizeInProgress, nil, "", "", pod.Generation)
	m.event(pod, "", corev1.EventTypeNormal, "ResizeStarted", summary("Pod resize started", pod, ""))
	return pod
}

func condition(t corev1.PodConditionType, old *corev1.PodCondition, reason, message string, generation int64) *corev1.PodCondition {
	c := &corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: generation, LastTransitionTime: metav1.Now()}
	if old != nil {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}

// summary is the message of a resize's event: what the spec asks for, as JSON.
func summary(prefix string, pod *corev1.Pod, problem string) string {
	type sized struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	all := struct {
		InitContainers []sized `json:"initContainers,omitempty"`
		Containers     []sized `json:"containers,omitempty"`
		Generation     int64   `json:"generation"`
		Error          string  `json:"error,omitempty"`
	}{Generation: pod.Generation, Error: problem}
	for i := range pod.Spec.InitContainers {
		all.InitContainers = append(all.InitContainers, sized{pod.Spec.InitContainers[i].Name, pod.Spec.InitContainers[i].Resources})
	}
	for i := range pod.Spec.Containers {
		all.Containers = append(all.Containers, sized{pod.Spec.Containers[i].Name, pod.Spec.Containers[i].Resources})
	}
	data, err := json.Marshal(all)
	if err != nil {
		return prefix
	}
	return prefix + ": " + string(data)
}

// change is a running container whose values in the runtime are not those granted.
type change struct {
	spec        *corev1.Container
	target      *cri.Container
	have, want  *runtimeapi.LinuxContainerResources
	cpu, memory bool
	lessCPU     bool
	lessMemory  bool
}

// changes compares what runs with what is granted.
func changes(pod *corev1.Pod, rt *cri.PodStatus, memoryCapacity int64) []change {
	var out []change
	for _, c := range resizable(pod) {
		ct := rt.Find(c.Name)
		if ct == nil || !ct.Running() {
			continue
		}
		have := ct.Resources.GetLinux()
		if have == nil {
			continue // the runtime does not say
		}
		want := container.Resources(pod, c, memoryCapacity)
		differ := func(a, b int64) bool { return max(a, 0) != max(b, 0) }
		x := change{
			spec: c, target: ct, have: have, want: want,
			cpu:        differ(have.CpuQuota, want.CpuQuota) || differ(have.CpuShares, want.CpuShares),
			memory:     differ(have.MemoryLimitInBytes, want.MemoryLimitInBytes),
			lessCPU:    want.CpuQuota > 0 && (have.CpuQuota <= 0 || want.CpuQuota < have.CpuQuota),
			lessMemory: want.MemoryLimitInBytes > 0 && (have.MemoryLimitInBytes <= 0 || want.MemoryLimitInBytes < have.MemoryLimitInBytes),
		}
		if x.cpu || x.memory {
			out = append(out, x)
		}
	}
	return out
}

// restart tells that the container has to be made anew for its new size.
func (x *change) restart() bool {
	return slices.ContainsFunc(x.spec.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		return p.RestartPolicy == corev1.RestartContainer && (p.ResourceName == corev1.ResourceCPU && x.cpu || p.ResourceName == corev1.ResourceMemory && x.memory)
	})
}

// least takes of each resource what is less before and after the change.
func (x *change) least() *runtimeapi.LinuxContainerResources {
	out := proto.CloneOf(x.want)
	if !x.lessCPU {
		out.CpuQuota, out.CpuPeriod, out.CpuShares = x.have.CpuQuota, x.have.CpuPeriod, x.have.CpuShares
	}
	if !x.lessMemory {
		out.MemoryLimitInBytes = x.have.MemoryLimitInBytes
	}
	return out
}

// resize brings what was granted into force: containers whose policy says so
// are stopped, and started in this round, others change while they run. The pod's
// cgroup never holds less than its containers: by resource, what shrinks shrinks
// in the containers first, then in the pod, and what grows grows in the pod
// first. Whether what is in use fits is looked at before anything is changed.
func (m *Manager) resize(ctx context.Context, e *entry, pod *corev1.Pod, rt *cri.PodStatus, todo *actions) error {
	if e.sizes.progress == nil || todo.killPod || todo.sandbox {
		return nil
	}
	var shrink, grow, again []change
	for _, x := range changes(pod, rt, m.deps.Node.MemoryCapacity()) {
		switch {
		case slices.ContainsFunc(todo.kills, func(k kill) bool { return k.target == x.target }):
		case x.restart():
			again = append(again, x)
		default:
			if x.lessCPU || x.lessMemory {
				shrink = append(shrink, x)
			}
			if !proto.Equal(x.least(), x.want) || !x.lessCPU && !x.lessMemory {
				grow = append(grow, x)
			}
		}
	}
	if err := m.usageFits(ctx, pod, rt, shrink, again); err != nil {
		return err
	}
	for _, x := range again {
		message := fmt.Sprintf("Container %s resize requires restart", x.spec.Name)
		if x.lessCPU || x.lessMemory {
			// The pod's cgroup shrinks in this round, and would take from under it what it uses.
			if err := m.stopContainer(ctx, pod, x.spec, x.target, message, killOther, nil, nil); err != nil {
				return fmt.Errorf("kill container %s: %w", x.spec.Name, err)
			}
			x.target.State, x.target.Finished = runtimeapi.ContainerState_CONTAINER_EXITED, time.Now()
		} else {
			todo.kills = append(todo.kills, kill{x.target, x.spec, message, killOther})
		}
		if container.IsSidecar(x.spec) {
			todo.init = append(todo.init, x.spec)
		} else {
			todo.main = append(todo.main, x.spec)
		}
	}
	for _, x := range shrink {
		if err := m.change(ctx, x, x.least()); err != nil {
			return err
		}
	}
	if m.deps.Cgroups != nil {
		if err := m.deps.Cgroups.Resize(pod); err != nil {
			return err
		}
	}
	for _, x := range grow {
		if err := m.change(ctx, x, x.want); err != nil {
			return err
		}
	}
	return nil
}

// usageFits refuses memory limits below what is in use, of containers that go on running and of the pod: they would end
// the container, or never come into force.
func (m *Manager) usageFits(ctx context.Context, pod *corev1.Pod, rt *cri.PodStatus, shrink, again []change) error {
	less := func(x change) bool { return x.lessMemory }
	if !slices.ContainsFunc(shrink, less) && !slices.ContainsFunc(again, less) {
		return nil
	}
	var sum uint64
	for _, ct := range rt.Running() {
		if slices.ContainsFunc(again, func(x change) bool { return x.target.ID == ct.ID }) {
			continue // begins anew
		}
		stats, err := m.deps.CRI.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: ct.ID})
		if err != nil {
			return fmt.Errorf("memory in use of container %s: %w", ct.Name, errors.New(cri.Message(err)))
		}
		used := stats.GetStats().GetMemory().GetUsageBytes().GetValue()
		sum += used
		for _, x := range shrink {
			if x.target.ID == ct.ID && x.lessMemory && used >= uint64(x.want.MemoryLimitInBytes) {
				return fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", x.spec.Name, x.want.MemoryLimitInBytes, used)
			}
		}
	}
	if limit := container.PodResources(pod).MemoryLimitInBytes; limit > 0 && sum >= uint64(limit) {
		return fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)", limit, sum)
	}
	return nil
}

func (m *Manager) change(ctx context.Context, x change, to *runtimeapi.LinuxContainerResources) error {
	if _, err := m.deps.CRI.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: x.target.ID, Linux: to}); err != nil {
		return fmt.Errorf("resize container %s: %s", x.spec.Name, cri.Message(err))
	}
	return nil
}

// resized concludes a round: the resize is complete, or why it is not.
func (m *Manager) resized(e *entry, pod *corev1.Pod, rt *cri.PodStatus, err error) {
	s := &e.sizes
	switch {
	case s.progress == nil:
	case err != nil:
		if s.progress.Message != err.Error() {
			s.progress = condition(corev1.PodResizeInProgress, s.progress, corev1.PodReasonError, err.Error(), s.progress.ObservedGeneration)
			m.event(pod, "", corev1.EventTypeWarning, "ResizeError", summary("Pod resize error", pod, err.Error()))
		}
	case len(changes(pod, rt, m.deps.Node.MemoryCapacity())) == 0:
		s.progress = nil
		m.event(pod, "", corev1.EventTypeNormal, "ResizeCompleted", summary("Pod resize completed", pod, ""))
	}
}
