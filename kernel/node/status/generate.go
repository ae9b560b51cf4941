package status

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
)

// Waiting is why a container does not run yet.
type Waiting struct{ Reason, Message string }

// Input is what a status is generated from.
type Input struct {
	Pod     *corev1.Pod
	Runtime *cri.PodStatus // nil: nothing is known to the runtime
	// Previous is the status last generated, or the API's.
	Previous corev1.PodStatus
	// RuntimeName prefixes container ids (containerd://…).
	RuntimeName string
	// Started and Ready answer for running containers, by runtime id.
	Started, Ready func(c *corev1.Container, id string) bool
	// Waiting is why a container that should run does not, if known.
	Waiting func(name string) (Waiting, bool)
	// Message reads the termination message of an exited container.
	Message func(c *cri.Container) string
	HostIPs []string
	// Terminating: the pod is being stopped and starts nothing. Terminal phase, reason and message override when set.
	Terminating           bool
	Phase                 corev1.PodPhase
	Reason, StatusMessage string
	Now                   time.Time
	// Resize are the conditions of a resize in place, and Unsettled the containers that do not have their new
	// resources yet, by name.
	Resize    []corev1.PodCondition
	Unsettled map[string]bool
	// RestartingAll: all containers are being removed, to be started anew by a rule of one of them.
	RestartingAll bool
	// Disrupted is why the agent ends the pod for the node's sake; empty: it does not.
	Disrupted string
}

// Generate computes the status.
func Generate(in Input) corev1.PodStatus {
	pod := in.Pod
	rt := in.Runtime
	if rt == nil {
		rt = &cri.PodStatus{}
	}
	s := *in.Previous.DeepCopy()
	s.ObservedGeneration = pod.Generation
	s.QOSClass = container.QOS(pod)
	s.Reason, s.Message = in.Reason, in.StatusMessage
	if s.StartTime == nil {
		now := metav1.NewTime(in.Now)
		s.StartTime = &now
	}
	if refused(in.Previous, in.Phase, rt) {
		s.Phase = cmp.Or(in.Phase, in.Previous.Phase)
		s.Reason, s.Message = cmp.Or(s.Reason, in.Previous.Reason), cmp.Or(s.Message, in.Previous.Message)
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PodCondition) bool { return owned(c.Type) })
		return s
	}
	hasInit := len(pod.Spec.InitContainers) > 0
	initial := "ContainerCreating"
	if hasInit {
		initial = "PodInitializing"
	}
	initialized := AnyMainCreated(pod, rt)
	s.InitContainerStatuses = in.list(rt, pod.Spec.InitContainers, in.Previous.InitContainerStatuses, initial, true, initialized)
	s.ContainerStatuses = in.list(rt, pod.Spec.Containers, in.Previous.ContainerStatuses, initial, false, initialized)
	var ephemeral []corev1.Container
	for i := range pod.Spec.EphemeralContainers {
		ephemeral = append(ephemeral, *container.Ephemeral(&pod.Spec.EphemeralContainers[i]))
	}
	s.EphemeralContainerStatuses = in.list(rt, ephemeral, in.Previous.EphemeralContainerStatuses, "ContainerCreating", false, initialized)
	for i := range s.EphemeralContainerStatuses { // they have no probes, and nothing depends on them
		s.EphemeralContainerStatuses[i].Started, s.EphemeralContainerStatuses[i].Ready = nil, false
	}

	terminal := in.Previous.Phase == corev1.PodFailed || in.Previous.Phase == corev1.PodSucceeded
	all := slices.Concat(s.InitContainerStatuses, s.ContainerStatuses)
	s.Phase = phase(pod, all, in.Terminating && len(rt.Running()) == 0, anyStarted(s.ContainerStatuses))
	if terminal {
		s.Phase = in.Previous.Phase // a pod that ended stays ended
		s.Reason, s.Message = cmp.Or(s.Reason, in.Previous.Reason), cmp.Or(s.Message, in.Previous.Message)
	}
	if in.Phase != "" {
		s.Phase = in.Phase
	}
	s.HostIP, s.HostIPs = "", nil
	for _, ip := range in.HostIPs {
		s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: ip})
	}
	if len(in.HostIPs) > 0 {
		s.HostIP = in.HostIPs[0]
	}
	ips := rt.IPs
	if pod.Spec.HostNetwork && len(rt.Sandboxes) > 0 {
		ips = in.HostIPs
	}
	// An ended pod keeps the address that it had.
	if len(ips) > 0 || rt.ReadySandbox() != nil {
		s.PodIP, s.PodIPs = "", nil
		for _, ip := range ips {
			s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
		}
		if len(ips) > 0 {
			s.PodIP = ips[0]
		}
	}
	in.conditions(&s, all, rt)
	// Clients find statuses in the order of names; those of init containers in the order in which they run.
	byName := func(a, b corev1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(s.ContainerStatuses, byName)
	slices.SortFunc(s.EphemeralContainerStatuses, byName)
	return s
}

// refused tells a pod that ended before anything was tried: nothing is said of its containers, so that clients show why
// it was refused.
func refused(previous corev1.PodStatus, phase corev1.PodPhase, rt *cri.PodStatus) bool {
	ended := phase == corev1.PodFailed || previous.Phase == corev1.PodFailed || previous.Phase == corev1.PodSucceeded
	return ended && len(previous.ContainerStatuses) == 0 && len(rt.Containers) == 0
}

// AnyMainCreated tells that a main container exists: the init containers have all been through.
func AnyMainCreated(pod *corev1.Pod, rt *cri.PodStatus) bool {
	for i := range pod.Spec.Containers {
		if rt.Find(pod.Spec.Containers[i].Name) != nil {
			return true
		}
	}
	return false
}

func anyStarted(list []corev1.ContainerStatus) bool {
	for i := range list {
		s := &list[i]
		if s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil {
			return true
		}
	}
	return false
}

func (in *Input) list(rt *cri.PodStatus, containers []corev1.Container, previous []corev1.ContainerStatus, waiting string, isInit, initialized bool) []corev1.ContainerStatus {
	if len(containers) == 0 {
		return nil
	}
	out := make([]corev1.ContainerStatus, 0, len(containers))
	for i := range containers {
		out = append(out, in.one(rt, &containers[i], findStatus(previous, containers[i].Name), waiting, isInit, initialized))
	}
	return out
}

func (in *Input) one(rt *cri.PodStatus, c *corev1.Container, old *corev1.ContainerStatus, waiting string, isInit, initialized bool) corev1.ContainerStatus {
	var found []*cri.Container
	for _, ct := range rt.Containers {
		if ct.Name == c.Name && len(found) < 2 {
			found = append(found, ct)
		}
	}
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting}}}
	switch {
	case len(found) > 0:
		in.convert(&s, c, found[0])
		if in.Unsettled[c.Name] && old != nil && old.Resources != nil {
			s.Resources = old.Resources
		}
		if len(found) > 1 && found[1].Exited() {
			s.LastTerminationState.Terminated = in.terminated(found[1])
		} else if old != nil && old.ContainerID != s.ContainerID && old.State.Terminated != nil {
			s.LastTerminationState.Terminated = old.State.Terminated
		} else if old != nil && s.State.Terminated == nil {
			s.LastTerminationState = old.LastTerminationState
		} else if old != nil && old.ContainerID == s.ContainerID {
			s.LastTerminationState = old.LastTerminationState
		}
	case old != nil && old.State.Terminated != nil:
		s = *old.DeepCopy()
	case old != nil:
		s.RestartCount, s.LastTerminationState = old.RestartCount, old.LastTerminationState
		if old.State.Running != nil && s.LastTerminationState.Terminated == nil {
			s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				Reason: "ContainerStatusUnknown", ExitCode: 137,
				Message: "The container could not be located when the pod was deleted.  The container used to be Running",
			}
			if in.Pod.DeletionTimestamp == nil {
				s.RestartCount++
			}
		}
	}
	if len(found) == 0 && in.Terminating && s.State.Waiting != nil && old != nil && old.State.Running != nil {
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "ContainerStatusUnknown", ExitCode: 137, Message: "The container could not be located when the pod was terminated",
		}}
	}
	if isInit && len(found) == 0 && initialized && !container.IsSidecar(c) && s.State.Waiting != nil {
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", ExitCode: 0,
			Message: "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
		}}
	}
	in.liveness(&s, c, found, isInit)
	if s.State.Running == nil && !in.Terminating && ShouldRestart(in.Pod, c, rt) {
		if w, ok := in.Waiting(c.Name); ok {
			if s.State.Terminated != nil {
				s.LastTerminationState = s.State
			}
			s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: w.Reason, Message: w.Message}}
		}
	}
	if old != nil {
		s.VolumeMounts = old.VolumeMounts
	}
	if s.VolumeMounts == nil {
		s.VolumeMounts = volumeMounts(c)
	}
	return s
}

func volumeMounts(c *corev1.Container) []corev1.VolumeMountStatus {
	var out []corev1.VolumeMountStatus
	for i := range c.VolumeMounts {
		m := corev1.VolumeMountStatus{Name: c.VolumeMounts[i].Name, MountPath: c.VolumeMounts[i].MountPath, ReadOnly: c.VolumeMounts[i].ReadOnly}
		if m.ReadOnly {
			mode := corev1.RecursiveReadOnlyDisabled
			if r := c.VolumeMounts[i].RecursiveReadOnly; r != nil && *r == corev1.RecursiveReadOnlyEnabled {
				mode = corev1.RecursiveReadOnlyEnabled
			}
			m.RecursiveReadOnly = &mode
		}
		out = append(out, m)
	}
	return out
}

// liveness fills started and ready.
func (in *Input) liveness(s *corev1.ContainerStatus, c *corev1.Container, found []*cri.Container, isInit bool) {
	started, ready := false, false
	if s.State.Running != nil && len(found) > 0 {
		started = in.Started(c, found[0].ID)
		if isInit && !container.IsSidecar(c) {
			ready = false
		} else {
			ready = started && in.Ready(c, found[0].ID)
		}
	}
	if isInit && !container.IsSidecar(c) {
		ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	}
	s.Started, s.Ready = &started, ready
}

func (in *Input) convert(s *corev1.ContainerStatus, c *corev1.Container, ct *cri.Container) {
	s.ContainerID = in.RuntimeName + "://" + ct.ID
	s.RestartCount = ct.RestartCount
	s.Image, s.ImageID = cmp.Or(ct.Image, c.Image), ct.ImageRef
	s.AllocatedResources = c.Resources.Requests
	s.Resources = c.Resources.DeepCopy()
	if ct.User != nil && ct.User.Linux != nil {
		s.User = &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: ct.User.Linux.Uid, GID: ct.User.Linux.Gid, SupplementalGroups: ct.User.Linux.SupplementalGroups}}
	}
	switch ct.State {
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(ct.Started)}}
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		s.State = corev1.ContainerState{Terminated: in.terminated(ct)}
	default:
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	}
}

func (in *Input) terminated(ct *cri.Container) *corev1.ContainerStateTerminated {
	message := ct.Message
	if in.Message != nil {
		if m := in.Message(ct); m != "" {
			message = m
		}
	}
	started := ct.Started
	if started.IsZero() {
		started = time.Unix(0, 0) // never started; clients know it by 1970
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: ct.ExitCode, Reason: ct.Reason, Message: message,
		StartedAt: metav1.NewTime(started), FinishedAt: metav1.NewTime(ct.Finished),
		ContainerID: in.RuntimeName + "://" + ct.ID,
	}
}

func findStatus(list []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// ShouldRestart tells that a container which is not running should be started, by its restart policy and rules.
func ShouldRestart(pod *corev1.Pod, c *corev1.Container, rt *cri.PodStatus) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == c.Name {
			return rt.Find(c.Name) == nil
		}
	}
	ct := rt.Find(c.Name)
	if ct == nil {
		return true
	}
	switch ct.State {
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return false
	case runtimeapi.ContainerState_CONTAINER_UNKNOWN, runtimeapi.ContainerState_CONTAINER_CREATED:
		return true
	}
	return restartAfter(pod, c, ct.ExitCode)
}

// restartRule is what the first rule that matches an exit code says; "" where none does.
func restartRule(c *corev1.Container, exit int32) corev1.ContainerRestartRuleAction {
	for _, rule := range c.RestartPolicyRules {
		if rule.ExitCodes == nil {
			continue
		}
		in := slices.Contains(rule.ExitCodes.Values, exit)
		if (rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) == in {
			return rule.Action
		}
	}
	return ""
}

// mayRestartAll tells that a container of the pod has a rule by which all are started anew.
func mayRestartAll(pod *corev1.Pod) bool {
	for c := range container.All(pod) {
		for _, rule := range c.RestartPolicyRules {
			if rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

// RestartsAll tells that a container ended in such a way that, by its rules, all containers of the pod are started anew.
func RestartsAll(c *corev1.Container, ct *cri.Container) bool {
	return ct != nil && ct.Exited() && restartRule(c, ct.ExitCode) == corev1.ContainerRestartRuleActionRestartAllContainers
}

func restartAfter(pod *corev1.Pod, c *corev1.Container, exit int32) bool {
	switch restartRule(c, exit) {
	case corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers:
		return true
	}
	switch container.RestartPolicy(pod, c) {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exit != 0
	}
	return true
}
