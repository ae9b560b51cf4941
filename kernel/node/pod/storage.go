package pod

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/localstorage"
	"pintle.dev/pintle/kernel/node/sandbox"
)

const (
	// evictionGrace is what containers of an evicted pod get.
	evictionGrace = time.Second
	// systemCritical is the priority from which on pods are not evicted.
	systemCritical = 2000000000
)

// LimitStorage measures what pods with a limit of local storage use (emptyDir
// volumes on disk, logs, what containers write to their own file systems), and
// evicts those that use more.
func (m *Manager) LimitStorage(ctx context.Context) error {
	var limited []*corev1.Pod
	for _, pod := range m.List() {
		if limitsStorage(pod) && (pod.Spec.Priority == nil || *pod.Spec.Priority < systemCritical) && len(m.running(pod.UID)) > 0 {
			limited = append(limited, pod)
		}
	}
	if len(limited) == 0 {
		return nil
	}
	stats, err := m.deps.CRI.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
	if err != nil {
		return fmt.Errorf("measure local storage: %w", err)
	}
	written := map[string]int64{}
	for _, s := range stats.Stats {
		written[s.GetAttributes().GetId()] = int64(s.GetWritableLayer().GetUsedBytes().GetValue())
	}
	var errs []error
	for _, pod := range limited {
		message, err := m.overStorage(ctx, pod, written)
		if err != nil {
			errs = append(errs, fmt.Errorf("measure local storage of pod %s: %w", name(pod), err))
		} else if message != "" {
			// As the kubelet: over its own limits, a pod is no target of a disruption.
			m.evict(pod.UID, eviction{message: message})
		}
	}
	return errors.Join(errs...)
}

func limitsStorage(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if onDisk(&pod.Spec.Volumes[i]) && pod.Spec.Volumes[i].EmptyDir.SizeLimit != nil {
			return true
		}
	}
	_, ok := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]
	return ok
}

// onDisk tells an emptyDir volume whose size nothing else bounds: one in
// memory is mounted with its size.
func onDisk(v *corev1.Volume) bool {
	return v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
}

// running are the containers of a pod that ran when it was last looked at, by
// name the runtime's id.
func (m *Manager) running(uid types.UID) map[string]string {
	out := map[string]string{}
	if rt := m.Runtime(uid); rt != nil {
		for _, ct := range rt.Running() {
			out[ct.Name] = ct.ID
		}
	}
	return out
}

// overStorage answers why a pod is to go, in the kubelet's words, or nothing.
func (m *Manager) overStorage(ctx context.Context, pod *corev1.Pod, written map[string]int64) (string, error) {
	var total int64
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if !onDisk(v) {
			continue
		}
		used, err := localstorage.Usage(ctx, m.deps.Volumes.Path(pod, v))
		if err != nil {
			return "", err
		}
		if limit := v.EmptyDir.SizeLimit; limit != nil && limit.Sign() > 0 && used > limit.Value() {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, limit.String()), nil
		}
		total += used
	}
	own, err := m.ownFiles(ctx, pod)
	if err != nil {
		return "", err
	}
	total += own
	over := ""
	running := m.running(pod.UID)
	for c := range container.All(pod) {
		logs, err := localstorage.Usage(ctx, filepath.Join(sandbox.LogDirectory(m.cfg.LogDir, pod.Namespace, pod.Name, pod.UID), c.Name))
		if err != nil {
			return "", err
		}
		used := logs + written[running[c.Name]]
		if limit := c.Resources.Limits.StorageEphemeral(); over == "" && !limit.IsZero() && !container.IsInit(pod, c.Name) && used > limit.Value() {
			over = fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
		}
		total += used
	}
	// The limit of all containers is looked at first, as the kubelet does.
	if limit, ok := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]; ok && total > limit.Value() {
		return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String()), nil
	}
	return over, nil
}

// ownFiles measures the files that the agent made for the pod and its containers may write: /etc/hosts and those for
// their last words (CVE-2020-8557).
func (m *Manager) ownFiles(ctx context.Context, pod *corev1.Pod) (int64, error) {
	var sum int64
	for _, file := range []string{"etc-hosts", "containers"} {
		used, err := localstorage.Usage(ctx, filepath.Join(m.deps.Volumes.PodDir(pod.UID), file))
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// eviction is why a pod is to go.
type eviction struct {
	message    string
	disruption bool // for the node's sake, not for what the pod did
}

// Evict ends a pod for the node's sake: it fails with a DisruptionTarget condition, and does not come back.
func (m *Manager) Evict(uid types.UID, message string) {
	m.evict(uid, eviction{message, true})
}

// evict ends a pod: it fails and does not come back.
func (m *Manager) evict(uid types.UID, why eviction) {
	m.mu.Lock()
	e := m.entries[uid]
	m.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	e.evicted = why
	e.mu.Unlock()
	m.pool.Interrupt(uid)
}

// eviction is why the pod is to go, if it is.
func (e *entry) eviction() eviction {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.evicted
}
