package probe

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/node/container"
)

// Kind is the purpose of a probe.
type Kind int

// The kinds, in the order in which they gate each other.
const (
	Startup Kind = iota
	Liveness
	Readiness
)

func (k Kind) String() string { return [...]string{"Startup", "Liveness", "Readiness"}[k] }

// Deps are what probes work with; all are required.
type Deps struct {
	Exec Exec
	// Status is the pod's status as last computed by the agent: container ids, states, pod IP.
	Status func(uid types.UID) (corev1.PodStatus, bool)
	// Event records an event on a container of the pod.
	Event func(pod *corev1.Pod, containerName, eventType, reason, message string)
	// Changed is called when a result changed; it must not block.
	Changed func(uid types.UID)
	// Simulated says that no process runs in the containers, so that nothing listens on the addresses of their pods:
	// only Exec is asked, and who would be connected to is taken to be well.
	Simulated bool
	Logger    *slog.Logger
}

type key struct {
	uid  types.UID
	name string
	kind Kind
}

// Manager owns the probes of all pods of one node.
type Manager struct {
	deps  Deps
	start time.Time

	ctx  context.Context //nolint:containedctx // the lifetime of the probe goroutines, ended by Close
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	workers map[key]*worker
	results map[Kind]map[string]bool // container id → succeeded
}

// New makes a manager without probes. Close it.
func New(deps Deps) *Manager {
	ctx, stop := context.WithCancel(context.Background())
	return &Manager{
		deps: deps, start: time.Now(), ctx: ctx, stop: stop,
		workers: map[key]*worker{},
		results: map[Kind]map[string]bool{Startup: {}, Liveness: {}, Readiness: {}},
	}
}

// Close ends all probes and waits for them.
func (m *Manager) Close() {
	m.stop()
	m.wg.Wait()
}

// Set starts the probes of a pod that are not running yet.
func (m *Manager) Set(pod *corev1.Pod) {
	m.inherit(pod)
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; container.IsSidecar(c) {
			m.set(pod, c)
		}
	}
	for i := range pod.Spec.Containers {
		m.set(pod, &pod.Spec.Containers[i])
	}
}

// inherit takes over what an earlier agent had concluded about containers that ran before this one started and still
// do: until their probes have run again they stay as ready as they were, or every service would lose its endpoints
// for a moment at each restart (as 1.36, whose gate ChangeContainerStatusOnKubeletRestart is off).
func (m *Manager) inherit(pod *corev1.Pod) {
	before := m.start.Truncate(time.Second)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			s := &list[i]
			if s.State.Running == nil || s.ContainerID == "" || !s.State.Running.StartedAt.Time.Before(before) {
				continue
			}
			id := trimScheme(s.ContainerID)
			if _, known := m.results[Startup][id]; !known && s.Started != nil && *s.Started {
				m.results[Startup][id] = true
			}
			if _, known := m.results[Readiness][id]; !known && s.Ready {
				m.results[Readiness][id] = true
			}
		}
	}
}

func (m *Manager) set(pod *corev1.Pod, c *corev1.Container) {
	for kind, p := range map[Kind]*corev1.Probe{Startup: c.StartupProbe, Liveness: c.LivenessProbe, Readiness: c.ReadinessProbe} {
		if p == nil {
			continue
		}
		k := key{pod.UID, c.Name, kind}
		m.mu.Lock()
		if m.workers[k] == nil && m.ctx.Err() == nil {
			ctx, cancel := context.WithCancel(m.ctx)
			w := &worker{m: m, key: k, pod: pod, container: c, probe: p, cancel: cancel, poke: make(chan struct{}, 1)}
			m.workers[k] = w
			m.wg.Go(func() { w.run(ctx) })
		}
		m.mu.Unlock()
	}
}

// Remove ends the probes of a pod.
func (m *Manager) Remove(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, w := range m.workers {
		if k.uid == uid {
			w.cancel()
		}
	}
}

// StopLiveness ends the startup and liveness probes of a pod that is being stopped; readiness goes on.
func (m *Manager) StopLiveness(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, w := range m.workers {
		if k.uid == uid && k.kind != Readiness {
			w.cancel()
		}
	}
}

// Poke lets a pod's probes look at once instead of at their next tick: a container has started.
func (m *Manager) Poke(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, w := range m.workers {
		if k.uid == uid {
			select {
			case w.poke <- struct{}{}:
			default:
			}
		}
	}
}

// Result is what a probe concluded about a container; known is false before it concluded anything.
func (m *Manager) Result(kind Kind, containerID string) (ok, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ok, known = m.results[kind][trimScheme(containerID)]
	return ok, known
}

// Started tells that a running container has started in the sense of its startup probe: it has none, or it succeeded.
func (m *Manager) Started(c *corev1.Container, containerID string) bool {
	if c.StartupProbe == nil {
		return true
	}
	ok, known := m.Result(Startup, containerID)
	return known && ok
}

// Ready tells that a running, started container is ready: it has no readiness probe, or it succeeded.
func (m *Manager) Ready(c *corev1.Container, containerID string) bool {
	if !m.Started(c, containerID) {
		return false
	}
	if c.ReadinessProbe == nil {
		return true
	}
	ok, known := m.Result(Readiness, containerID)
	return known && ok
}

// Forget drops what is known of a container that was removed.
func (m *Manager) forget(kind Kind, containerID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.results[kind], containerID)
}

// conclude stores a result and tells whether it is news.
func (m *Manager) conclude(kind Kind, containerID string, ok bool, uid types.UID, quiet bool) {
	m.mu.Lock()
	old, known := m.results[kind][trimScheme(containerID)]
	m.results[kind][trimScheme(containerID)] = ok
	m.mu.Unlock()
	if !quiet && (!known || old != ok) {
		m.deps.Changed(uid)
	}
}
