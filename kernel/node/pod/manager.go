package pod

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"

	"pintle.dev/pintle/kernel/node/client"
	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/image"
	"pintle.dev/pintle/kernel/node/listener"
	"pintle.dev/pintle/kernel/node/object"
	"pintle.dev/pintle/kernel/node/probe"
	"pintle.dev/pintle/kernel/node/sandbox"
	"pintle.dev/pintle/kernel/node/status"
	"pintle.dev/pintle/kernel/node/volume"
	"pintle.dev/pintle/kernel/node/worker"
)

// Config is what a manager is told.
type Config struct {
	LogDir  string
	Seccomp container.SeccompProfiles
	// SeccompWaived: where the runtime has no seccomp, containers run without their RuntimeDefault profile. Otherwise
	// they do not start.
	SeccompWaived  bool
	Resolver       sandbox.Resolver
	DefaultHandler string        // CRI runtime handler without a RuntimeClass
	Resync         time.Duration // most time between rounds of a pod
	SkipVolumes    bool          // no files are made, nobody is connected to: the runtime runs no processes
	// LeastOOMScore is the least score of a container for the out-of-memory killer.
	LeastOOMScore int64
	// HugePages are the sizes of huge pages that containers are limited in, in bytes.
	HugePages []int64
	// BackOff and MaxBackOff delay restarts of a container that keeps ending. Defaults 10 s, 300 s; ten minutes of
	// running clear it.
	BackOff, MaxBackOff time.Duration
}

// Node is what pods need to know of their node; methods without a context must not block.
type Node interface {
	// Object is the Node as last known, nil before it was registered.
	Object() *corev1.Node
	// Refresh asks the API for the Node.
	Refresh(ctx context.Context) (*corev1.Node, error)
	HostIPs() []string
	MemoryCapacity() int64
	// RuntimeName prefixes container ids.
	RuntimeName() string
	// NetworkReady is nil when the runtime's network works.
	NetworkReady() error
}

// Cgroups keeps the cgroups of pods; nil: none are kept.
type Cgroups interface {
	// Ensure makes the pod's cgroup and answers the parent to give the runtime.
	Ensure(pod *corev1.Pod) (parent string, err error)
	// Resize sets the limits anew from the pod's resources.
	Resize(pod *corev1.Pod) error
	// Unified is what each container's cgroup is told besides its limits, by file of cgroup v2.
	Unified() map[string]string
	// Remove removes it.
	Remove(uid types.UID) error
}

// Deps are what a manager works with; all but Cgroups, Absent and Listening are required.
type Deps struct {
	Client   client.Interface
	CRI      *cri.Client
	Volumes  *volume.Manager
	Images   *image.Puller
	Probes   *probe.Manager
	Status   *status.Manager
	Objects  *object.Cache
	Services func() ([]*corev1.Service, error)
	Node     Node
	Cgroups  Cgroups
	// Absent tells that the runtime had nothing of a pod when all of its pods were listed last. Nil: it is asked.
	Absent func(uid types.UID) bool
	// Listening are the ports that no pod may take; nil: none.
	Listening func() listener.Set
	Turn      func(context.Context) context.Context // nil: a round begins at once
	Events    record.EventRecorder
	Logger    *slog.Logger
}

// end says that a pod is over for a reason that is not in its containers.
type end struct{ reason, message string }

// entry is what is kept of one pod.
type entry struct {
	mu      sync.Mutex
	pod     *corev1.Pod
	gone    bool
	evicted eviction
	// changed is when the runtime last told of a change, looked when it was asked for what the present state of work is
	// made of.
	changed, looked time.Time

	// The fields below belong to the pod's worker.
	known         bool           // the runtime was asked about the pod, or a first round began without
	settled       bool           // the last round left nothing to do: Manager.rt has all sandboxes and containers that there are
	sandbox       string         // made by the round under way, and the pod's only one
	last          *cri.PodStatus // what the runtime has of a pod that has stopped for good; nil: it is to be asked
	admitted      bool
	end           *end
	terminating   bool
	released      bool // nothing of it runs, and the node's room is others'
	terminated    bool
	stopping      time.Time      // when stopping began
	grace         *time.Duration // of containers, in place of the spec's
	restartingAll bool           // all containers are being removed, to be started anew
	disrupted     string         // why the agent ends the pod for the node's sake
	waiting       map[string]status.Waiting
	messages      map[string]string // container id → termination message
	volumesBad    bool
	mountWait     time.Duration // until a failed mount is tried again
	hasRun        bool
	complaint     string // what was last logged about the pod
	sizes         sizes
}

func (e *entry) object() (*corev1.Pod, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pod, e.gone
}

// acted notes that the work is up to what the runtime had at a moment.
func (e *entry) acted(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looked = at
}

// behind reports whether the runtime has told of a change that the work does not know.
func (e *entry) behind() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.changed.Before(e.looked)
}

// Manager runs the pods of one node.
type Manager struct {
	cfg     Config
	deps    Deps
	pool    *worker.Pool
	backoff *flowcontrol.Backoff
	admit   admission
	// noSeccomp holds the runtime handlers that refused a sandbox for its seccomp profile.
	noSeccomp sync.Map

	begun   chan struct{} // closed by Begin
	mu      sync.Mutex
	entries map[types.UID]*entry
	rt      map[types.UID]*cri.PodStatus // last seen, for servers and statistics
}

// New makes a manager without pods, which does nothing about any before Begin. Close it.
func New(cfg Config, deps Deps) *Manager {
	if cfg.BackOff == 0 {
		cfg.BackOff = 10 * time.Second
	}
	if cfg.MaxBackOff == 0 {
		cfg.MaxBackOff = 300 * time.Second
	}
	m := &Manager{
		cfg: cfg, deps: deps, entries: map[types.UID]*entry{}, rt: map[types.UID]*cri.PodStatus{}, begun: make(chan struct{}),
		backoff: flowcontrol.NewBackOff(cfg.BackOff, cfg.MaxBackOff),
	}
	m.admit.admitted = map[types.UID]*corev1.Pod{}
	m.admit.listening = deps.Listening
	m.pool = worker.New(m.round)
	return m
}

// Close interrupts all workers and waits for them. Containers go on running.
func (m *Manager) Close() { m.pool.Close() }

// Begin says that all pods that the API has now are set. Before, a pod could be given the room of another that was
// admitted by an earlier run of the agent and is not known yet. Call it once.
func (m *Manager) Begin() { close(m.begun) }

// Set takes a pod's newest object.
func (m *Manager) Set(pod *corev1.Pod) {
	m.mu.Lock()
	e := m.entries[pod.UID]
	if e == nil {
		if pod.Status.StartTime != nil && !ended(pod.Status.Phase) {
			m.admit.keep(withResources(pod, granted(pod)))
		}
		e = &entry{waiting: map[string]status.Waiting{}, messages: map[string]string{}}
		m.entries[pod.UID] = e
	}
	m.mu.Unlock()
	e.mu.Lock()
	old := e.pod
	e.pod = pod
	e.mu.Unlock()
	m.deps.Status.Observe(pod)
	// A deletion, or a shorter grace, does not wait for a pull or a stop under way.
	urgent := old != nil && pod.DeletionTimestamp != nil && (old.DeletionTimestamp == nil ||
		(pod.DeletionGracePeriodSeconds != nil && old.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds < *old.DeletionGracePeriodSeconds))
	switch {
	case urgent:
		m.pool.Interrupt(pod.UID)
	case old == nil || needsRound(old, pod):
		m.pool.Wake(pod.UID)
	}
}

// needsRound is false for an update that only brings back the agent's own status.
func needsRound(old, pod *corev1.Pod) bool {
	if old.Generation != pod.Generation || old.DeletionTimestamp != pod.DeletionTimestamp || old.ResourceVersion == pod.ResourceVersion {
		return true
	}
	// API servers before 1.33 count no generations of pods.
	if pod.Generation == 0 && !equality.Semantic.DeepEqual(old.Spec, pod.Spec) {
		return true
	}
	if !sameMap(old.Labels, pod.Labels) || !sameMap(old.Annotations, pod.Annotations) {
		return true // the downward API shows them
	}
	return len(pod.Spec.ReadinessGates) > 0
}

func sameMap(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// Gone says that the API no longer has the pod: whatever runs of it is stopped and removed. As with the kubelet, a pod
// that was deleted by force has no room any more: the scheduler has given it away, and would go on giving it to pods that
// are refused.
func (m *Manager) Gone(pod *corev1.Pod) {
	m.mu.Lock()
	e := m.entries[pod.UID]
	m.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	e.gone = true
	e.mu.Unlock()
	m.admit.release(pod.UID)
	m.pool.Interrupt(pod.UID)
}

// Orphan takes over what the runtime has of a pod that the API does not have: it is stopped and removed.
func (m *Manager) Orphan(p *cri.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[p.UID] != nil {
		return
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = p.Namespace, p.Name, p.UID
	m.entries[p.UID] = &entry{pod: pod, gone: true, waiting: map[string]status.Waiting{}, messages: map[string]string{}}
	m.pool.Wake(p.UID)
}

// Wake has a round made for a pod; unknown pods are ignored.
func (m *Manager) Wake(uid types.UID) {
	m.mu.Lock()
	known := m.entries[uid] != nil
	m.mu.Unlock()
	if known {
		m.pool.Wake(uid)
	}
}

// Changed has a round made for a pod of which the runtime tells that it changed, unless the work has seen that already:
// most of what a runtime tells is what a round did there.
func (m *Manager) Changed(uid types.UID, at time.Time) {
	m.mu.Lock()
	e := m.entries[uid]
	m.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	if at.After(e.changed) {
		e.changed = at
	}
	e.mu.Unlock()
	m.pool.WakeIf(uid, e.behind)
}

// Known tells that the manager holds the pod.
func (m *Manager) Known(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entries[uid] != nil
}

// List are the pods held, in no order; shared, read only.
func (m *Manager) List() []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*corev1.Pod, 0, len(m.entries))
	for _, e := range m.entries {
		if pod, gone := e.object(); !gone {
			out = append(out, pod)
		}
	}
	return out
}

// VolumeImages are the references of the images that volumes of pods show.
func (m *Manager) VolumeImages() []string {
	var out []string
	for _, pod := range m.List() {
		for i := range pod.Spec.Volumes {
			if img := pod.Spec.Volumes[i].Image; img != nil {
				out = append(out, img.Reference)
			}
		}
	}
	return out
}

// Find is the pod of that name, or nil.
func (m *Manager) Find(namespace, name string) *corev1.Pod {
	for _, pod := range m.List() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod
		}
	}
	return nil
}

// Runtime is what was last seen of a pod in the runtime, or nil.
func (m *Manager) Runtime(uid types.UID) *cri.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rt[uid]
}

// Collect forgets back-offs that are long over.
func (m *Manager) Collect() { m.backoff.GC() }

func (m *Manager) event(pod *corev1.Pod, containerName, eventType, reason, message string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	if containerName != "" {
		ref.FieldPath = container.FieldPath(pod, containerName)
	}
	m.deps.Events.Event(ref, eventType, reason, message)
}

// Event records an event on a pod, or on one of its containers.
func (m *Manager) Event(pod *corev1.Pod, containerName, eventType, reason, message string) {
	m.event(pod, containerName, eventType, reason, message)
}

func (m *Manager) round(ctx context.Context, uid types.UID) time.Duration {
	m.mu.Lock()
	e := m.entries[uid]
	m.mu.Unlock()
	if e == nil {
		return 0
	}
	select {
	case <-m.begun:
	case <-ctx.Done():
		return 0
	}
	if m.deps.Turn != nil {
		ctx = m.deps.Turn(ctx)
	}
	return m.sync(ctx, e)
}

func (m *Manager) forget(uid types.UID) {
	m.mu.Lock()
	delete(m.entries, uid)
	delete(m.rt, uid)
	m.mu.Unlock()
	m.admit.release(uid)
}
