package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/status"
)

// results answers what probes concluded; known is false before they concluded anything.
type results interface {
	startup(id string) (ok, known bool)
	liveness(id string) (ok, known bool)
}

// killReason tells why a container is stopped, for the grace period that holds.
type killReason int

const (
	killOther killReason = iota
	killStartup
	killLiveness
)

type kill struct {
	target  *cri.Container
	spec    *corev1.Container
	message string
	reason  killReason
}

// actions is what one round has to do, in this order: stop the pod or single containers, make a sandbox, start
// containers.
type actions struct {
	killPod   bool // stop all containers and sandboxes first
	sandbox   bool // then make a new sandbox
	attempt   uint32
	kills     []kill
	init      []*corev1.Container
	main      []*corev1.Container
	ephemeral []*corev1.Container
}

// none tells that there is nothing to do.
func (a *actions) none() bool {
	return !a.killPod && !a.sandbox && len(a.kills)+len(a.init)+len(a.main)+len(a.ephemeral) == 0
}

// sandboxChanged tells that the pod needs a new sandbox: it has none, the newest is not ready, or it has no address.
func sandboxChanged(pod *corev1.Pod, rt *cri.PodStatus) (changed bool, attempt uint32) {
	if len(rt.Sandboxes) == 0 {
		return true, 0
	}
	newest := rt.Sandboxes[0]
	ready := 0
	for _, s := range rt.Sandboxes {
		if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			ready++
		}
	}
	attempt = newest.Metadata.Attempt + 1
	if ready > 1 || newest.State != runtimeapi.PodSandboxState_SANDBOX_READY {
		return true, attempt
	}
	host := newest.Linux != nil && newest.Linux.Namespaces != nil && newest.Linux.Namespaces.Options != nil &&
		newest.Linux.Namespaces.Options.Network == runtimeapi.NamespaceMode_NODE
	if newest.Linux != nil && newest.Linux.Namespaces != nil && newest.Linux.Namespaces.Options != nil && host != pod.Spec.HostNetwork {
		return true, attempt
	}
	if !pod.Spec.HostNetwork && (newest.Network == nil || newest.Network.Ip == "") {
		return true, attempt
	}
	return false, newest.Metadata.Attempt
}

// compute decides what to do about a pod that should run.
func compute(pod *corev1.Pod, rt *cri.PodStatus, probes results) actions {
	var a actions
	changed, attempt := sandboxChanged(pod, rt)
	if changed {
		return computeSandbox(pod, rt, attempt)
	}
	a.attempt = attempt
	for i := range pod.Spec.EphemeralContainers {
		if c := container.Ephemeral(&pod.Spec.EphemeralContainers[i]); rt.Find(c.Name) == nil {
			a.ephemeral = append(a.ephemeral, c)
		}
	}
	if !computeInit(pod, rt, probes, &a) || a.killPod {
		return a
	}
	keep := 0
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		ct := rt.Find(c.Name)
		if ct == nil || !ct.Running() {
			if status.ShouldRestart(pod, c, rt) {
				a.main = append(a.main, c)
				if ct != nil && ct.State == runtimeapi.ContainerState_CONTAINER_UNKNOWN {
					a.kills = append(a.kills, kill{ct, c, "Container is in \"unknown\" state, try killing it before restart", killOther})
				}
			}
			continue
		}
		message, reason, restart := "", killOther, container.RestartPolicy(pod, c) != corev1.RestartPolicyNever
		if ct.Hash != cri.HashContainer(c) {
			message, restart = fmt.Sprintf("Container %s definition changed", c.Name), true
		} else if ok, known := probes.liveness(ct.ID); known && !ok {
			message, reason = fmt.Sprintf("Container %s failed liveness probe", c.Name), killLiveness
		} else if ok, known := probes.startup(ct.ID); known && !ok {
			message, reason = fmt.Sprintf("Container %s failed startup probe", c.Name), killStartup
		} else {
			keep++
			continue
		}
		if restart {
			message += ", will be restarted"
			a.main = append(a.main, c)
		}
		a.kills = append(a.kills, kill{ct, c, message, reason})
	}
	if keep == 0 && len(a.main) == 0 {
		// Every main container ended for good: sidecars are stopped with the pod.
		a.killPod = true
		a.init = nil
	}
	return a
}

func computeSandbox(pod *corev1.Pod, rt *cri.PodStatus, attempt uint32) actions {
	a := actions{killPod: true, sandbox: true, attempt: attempt}
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever && attempt != 0 && len(rt.Containers) != 0 {
		a.sandbox = false
		return a
	}
	var main []*corev1.Container
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if ct := rt.Find(c.Name); ct != nil && ct.Exited() && ct.ExitCode == 0 && container.RestartPolicy(pod, c) == corev1.RestartPolicyOnFailure {
			continue
		}
		main = append(main, c)
	}
	if len(main) == 0 && status.AnyMainCreated(pod, rt) {
		a.sandbox = false
		return a
	}
	if len(pod.Spec.InitContainers) != 0 {
		a.init = []*corev1.Container{&pod.Spec.InitContainers[0]}
		return a
	}
	a.main = main
	return a
}

// computeInit walks the init containers from the last: the last one that left a trace tells how far the pod got.
// It answers whether main containers may start.
func computeInit(pod *corev1.Pod, rt *cri.PodStatus, probes results, a *actions) bool {
	list := pod.Spec.InitContainers
	if len(list) == 0 {
		return true
	}
	initialized := false
	for i := range pod.Spec.Containers {
		if ct := rt.Find(pod.Spec.Containers[i].Name); ct != nil && (ct.Running() || ct.State == runtimeapi.ContainerState_CONTAINER_CREATED || currentSandbox(rt, ct)) {
			initialized = true
		}
	}
	started := map[int]bool{}
	passed := initialized // a later init container, or a main one, left a trace: those before it are through
	for i := len(list) - 1; i >= 0; i-- {
		c := &list[i]
		ct, sidecar := rt.Find(c.Name), container.IsSidecar(c)
		if ct != nil && ct.Exited() && !sidecar && !initialized && !currentSandbox(rt, ct) {
			ct = nil // ran in a sandbox that is gone: initialization begins anew
		}
		if ct == nil {
			if passed && sidecar {
				started[i] = true
			}
			continue
		}
		if passed && !sidecar {
			continue
		}
		switch ct.State {
		case runtimeapi.ContainerState_CONTAINER_CREATED:
			started[i] = true
		case runtimeapi.ContainerState_CONTAINER_RUNNING:
			if !sidecar {
				break // wait for it to end
			}
			if c.StartupProbe != nil {
				ok, known := probes.startup(ct.ID)
				if known && !ok {
					a.kills = append(a.kills, kill{ct, c, fmt.Sprintf("Init container %s failed startup probe", c.Name), killStartup})
					started[i] = true
				}
				if !known || !ok {
					break
				}
			}
			if i == len(list)-1 {
				initialized = true
			} else if !passed {
				started[i+1] = true
			}
			if ct.Hash != cri.HashContainer(c) {
				a.kills = append(a.kills, kill{ct, c, fmt.Sprintf("Init container %s definition changed", c.Name), killOther})
				started[i] = true
			} else if ok, known := probes.liveness(ct.ID); c.LivenessProbe != nil && known && !ok {
				a.kills = append(a.kills, kill{ct, c, fmt.Sprintf("Init container %s failed liveness probe", c.Name), killLiveness})
				started[i] = true
			}
		case runtimeapi.ContainerState_CONTAINER_EXITED:
			switch {
			case sidecar:
				started[i] = true
			case ct.ExitCode != 0:
				if !status.ShouldRestart(pod, c, rt) {
					a.killPod = true
					a.init = nil
					return false
				}
				started[i] = true
			case i == len(list)-1:
				initialized = true
			default:
				if !passed {
					started[i+1] = true
				}
			}
		default: // unknown: it may run or not
			a.kills = append(a.kills, kill{ct, c, "Init container is in \"unknown\" state, try killing it before restart", killOther})
			if !sidecar && container.RestartPolicy(pod, c) == corev1.RestartPolicyNever {
				a.killPod = true
				return false
			}
			started[i] = true
		}
		passed = true
	}
	if !passed {
		started[0] = true
	}
	for i := range list {
		if started[i] {
			a.init = append(a.init, &list[i])
		}
	}
	return initialized
}

func currentSandbox(rt *cri.PodStatus, ct *cri.Container) bool {
	return len(rt.Sandboxes) > 0 && rt.Sandboxes[0].Id == ct.SandboxID
}
