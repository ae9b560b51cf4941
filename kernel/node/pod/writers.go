package pod

import (
	"context"
	"errors"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"pintle.dev/pintle/kernel/node/container"
	nodeeviction "pintle.dev/pintle/kernel/node/eviction"
	"pintle.dev/pintle/kernel/node/localstorage"
	"pintle.dev/pintle/kernel/node/sandbox"
)

// Writers are the pods that run, with what they have on the node's disks as it is now.
func (m *Manager) Writers(ctx context.Context) ([]nodeeviction.Writer, error) {
	var errs []error
	var out []nodeeviction.Writer
	for _, pod := range m.List() {
		running := m.running(pod.UID)
		if len(running) == 0 {
			continue
		}
		w := nodeeviction.Writer{UID: pod.UID, Name: name(pod), Critical: pod.Spec.Priority != nil && *pod.Spec.Priority >= systemCritical}
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		w.Requested = requests.StorageEphemeral().Value()
		used, err := m.ownFiles(ctx, pod)
		errs = append(errs, err)
		w.Used = used
		for i := range pod.Spec.Volumes {
			if v := &pod.Spec.Volumes[i]; onDisk(v) {
				used, err := localstorage.Usage(ctx, m.deps.Volumes.Path(pod, v))
				errs = append(errs, err)
				w.Used += used
			}
		}
		for c := range container.All(pod) {
			used, err := localstorage.Usage(ctx, filepath.Join(sandbox.LogDirectory(m.cfg.LogDir, pod.Namespace, pod.Name, pod.UID), c.Name))
			errs = append(errs, err)
			if id := running[c.Name]; id != "" {
				layer, err := localstorage.WritableLayer(ctx, m.deps.CRI, id)
				errs = append(errs, err)
				if layer != "" {
					written, err := localstorage.Usage(ctx, layer)
					errs = append(errs, err)
					used += written
				}
			}
			w.Used += used
			w.Containers = append(w.Containers, nodeeviction.Container{Name: c.Name, Used: used, Requested: c.Resources.Requests.StorageEphemeral().Value()})
		}
		out = append(out, w)
	}
	return out, errors.Join(errs...)
}

// Over tells that a pod has ended, or was evicted, and nothing of it runs.
func (m *Manager) Over(uid types.UID) bool {
	m.mu.Lock()
	e := m.entries[uid]
	m.mu.Unlock()
	if e == nil || len(m.running(uid)) > 0 {
		return false
	}
	s, ok := m.deps.Status.Get(uid)
	return e.eviction().message != "" || ok && ended(s.Phase)
}
