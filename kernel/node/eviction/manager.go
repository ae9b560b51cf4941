package eviction

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Numbers of the manager's work.
const (
	// Period is how often the machine is measured: a writer may fill some gigabytes in the kubelet's 10 s. While a disk
	// fills up it is measured sooner, before the threshold is reached at the speed of the last period.
	Period    = time.Second
	minPeriod = 50 * time.Millisecond
	// reclaimPeriod is how often what nobody uses is removed.
	reclaimPeriod = 10 * time.Second
	// patience is how long an evicted pod may take to leave before the next one goes too.
	patience = 10 * time.Second
)

// Config is what a manager is told.
type Config struct {
	Thresholds []Threshold
	Transition time.Duration // how long a pressure is told after it was last seen
	NodeFs     string        // a path of the file system of pods
	ProcFs     string        // default /proc
}

// Writer is a pod that has files on the node.
type Writer struct {
	UID        types.UID
	Name       string
	Critical   bool // it is not evicted
	Used       int64
	Requested  int64
	Containers []Container
}

// Container is what a container of a pod wrote.
type Container struct {
	Name            string
	Used, Requested int64
}

// Deps are what a manager works with.
type Deps struct {
	// ImageFs is a path of the file system of images and writable layers. Nil: that of NodeFs.
	ImageFs func(ctx context.Context) (string, error)
	// PodMemory is what the cgroup of all pods uses and may use. Nil: it has no limit.
	PodMemory func() (used, limit int64, ok bool)
	// Reclaim removes what nobody uses from the disks.
	Reclaim func(ctx context.Context) error
	// Writers are the pods that run, with what they wrote.
	Writers func(ctx context.Context) ([]Writer, error)
	// Evict ends a pod.
	Evict func(uid types.UID, message string)
	// Event records an event on the Node.
	Event func(eventType, reason, message string)
	// Changed is called when a pressure comes or goes.
	Changed func()
	Logger  *slog.Logger
}

// Pressures of a node.
type Pressures struct{ Memory, Disk, PID bool }

// Manager watches over one machine.
type Manager struct {
	cfg  Config
	deps Deps
	now  func() time.Time

	mu         sync.Mutex
	thresholds []Threshold
	transition time.Duration
	seen       map[corev1.NodeConditionType]time.Time // when a pressure was last measured
	pressures  Pressures

	// The fields below belong to Round.
	reclaimed time.Time
	last      sample
	evicted   types.UID
	since     time.Time
	// left is what was available when the evicted pod had left; a runtime gives back its room a little later.
	left      int64
	complaint string
}

// New makes a manager; its rounds are somebody else's to call.
func New(cfg Config, deps Deps) *Manager {
	if cfg.ProcFs == "" {
		cfg.ProcFs = "/proc"
	}
	return &Manager{cfg: cfg, deps: deps, now: time.Now, thresholds: cfg.Thresholds, transition: cfg.Transition, seen: map[corev1.NodeConditionType]time.Time{}}
}

// SetThresholds changes thresholds and transition from the next round on.
func (m *Manager) SetThresholds(t []Threshold, transition time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.thresholds, m.transition = t, transition
}

// Pressures are those of the last round, and those that are not over for long enough.
func (m *Manager) Pressures() Pressures {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pressures
}

// Reservation is what pods may not ask for because the thresholds keep it free.
func (m *Manager) Reservation(capacity corev1.ResourceList) corev1.ResourceList {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := corev1.ResourceList{}
	for _, t := range m.thresholds {
		name := map[Signal]corev1.ResourceName{MemoryAvailable: corev1.ResourceMemory, NodeFsAvailable: corev1.ResourceEphemeralStorage}[t.Signal]
		if q, ok := capacity[name]; ok {
			out[name] = *resource.NewQuantity(t.Of(q.Value()), resource.BinarySI)
		}
	}
	return out
}

// sample is how much was left above the threshold of the disk, and when.
type sample struct {
	room int64
	at   time.Time
}

// next is when the disk is to be measured again, from how quickly it fills up.
func (m *Manager) next(o Observations) time.Duration {
	m.mu.Lock()
	thresholds := m.thresholds
	m.mu.Unlock()
	now := sample{at: m.now()}
	for _, t := range thresholds {
		if have, ok := o[t.Signal]; ok && t.Signal == NodeFsAvailable {
			now.room = have.Available - t.Of(have.Capacity)
		}
	}
	before := m.last
	m.last = now
	spent, passed := before.room-now.room, now.at.Sub(before.at)
	if before.at.IsZero() || spent <= 0 || passed <= 0 || now.room <= 0 {
		return Period
	}
	left := time.Duration(float64(now.room) / float64(spent) * float64(passed))
	return min(max(left/2, minPeriod), Period)
}

// met is a threshold of which too little is left.
type met struct {
	Threshold
	Observation
}

// Round measures the machine, and makes room on its disks when there is too little.
func (m *Manager) Round(ctx context.Context) time.Duration {
	low, all, err := m.measure(ctx)
	if err != nil {
		m.complain(fmt.Sprintf("could not measure the machine: %v", err))
	}
	m.tell(low)
	again := m.next(all)
	disk := slices.DeleteFunc(slices.Clone(low), func(t met) bool { return condition(t.Signal) != corev1.NodeDiskPressure })
	if len(disk) == 0 {
		m.evicted = ""
		return again
	}
	now := m.now()
	writers, err := m.deps.Writers(ctx)
	if err != nil {
		m.complain(fmt.Sprintf("could not measure local storage of pods: %v", err))
	}
	left := false // the evicted pod has left, and what it wrote can go
	switch late := now.Sub(m.since) >= patience; {
	case m.evicted == "":
	case slices.ContainsFunc(writers, func(w Writer) bool { return w.UID == m.evicted }):
		if !late {
			return Period // it is on its way
		}
		m.evicted = ""
	case m.left == 0:
		left, m.left, m.since = true, max(disk[0].Available, 1), now
	case late || disk[0].Available < m.left-disk[0].Capacity/100:
		m.evicted = "" // its room was not enough, or somebody else takes it
	default:
		return Period // its room is on its way
	}
	if left || now.Sub(m.reclaimed) >= reclaimPeriod {
		m.reclaimed = now
		m.deps.Logger.Warn("the node's disk is nearly full: removing what nobody uses", "signal", disk[0].Signal, "available", disk[0].Available, "capacity", disk[0].Capacity)
		m.deps.Event(corev1.EventTypeWarning, "EvictionThresholdMet", fmt.Sprintf("Attempting to reclaim %s", resourceOf(disk[0].Signal)))
		if err := m.deps.Reclaim(ctx); err != nil {
			m.complain(fmt.Sprintf("could not remove what nobody uses: %v", err))
		}
		if now, _, err := m.measure(ctx); err == nil {
			disk = slices.DeleteFunc(now, func(t met) bool { return condition(t.Signal) != corev1.NodeDiskPressure })
		}
	}
	if len(disk) > 0 && !left {
		m.makeRoom(writers, disk[0])
	}
	return Period
}

// measure answers the thresholds of which too little is left, and all that was measured.
func (m *Manager) measure(ctx context.Context) ([]met, Observations, error) {
	o := Observations{}
	err := o.Machine(m.cfg.ProcFs)
	if ferr := o.FileSystem(m.cfg.NodeFs, NodeFsAvailable, NodeFsInodes); ferr != nil && err == nil {
		err = ferr
	}
	images := m.cfg.NodeFs
	if m.deps.ImageFs != nil {
		path, ierr := m.deps.ImageFs(ctx)
		if ierr == nil {
			images = path
		}
	}
	if ferr := o.FileSystem(images, ImageFsAvailable, ImageFsInodes); ferr != nil && err == nil {
		err = ferr
	}
	if m.deps.PodMemory != nil {
		if used, limit, ok := m.deps.PodMemory(); ok {
			o[allocatableMemory] = Observation{max(limit-used, 0), limit}
		}
	}
	m.mu.Lock()
	thresholds := m.thresholds
	m.mu.Unlock()
	return o.below(thresholds), o, err
}

// below are the thresholds of which too little is left.
func (o Observations) below(thresholds []Threshold) []met {
	var out []met
	for _, t := range thresholds {
		for _, signal := range []Signal{t.Signal, allocatableMemory} {
			have, ok := o[signal]
			if !ok || signal == allocatableMemory && t.Signal != MemoryAvailable || have.Available >= t.Of(have.Capacity) {
				continue
			}
			low := met{t, have}
			low.Signal = signal
			out = append(out, low)
		}
	}
	return out
}

func condition(s Signal) corev1.NodeConditionType {
	switch s {
	case MemoryAvailable, allocatableMemory:
		return corev1.NodeMemoryPressure
	case PIDAvailable:
		return corev1.NodePIDPressure
	}
	return corev1.NodeDiskPressure
}

func resourceOf(s Signal) string {
	switch s {
	case MemoryAvailable, allocatableMemory:
		return "memory"
	case PIDAvailable:
		return "pids"
	case NodeFsInodes, ImageFsInodes:
		return "inodes"
	}
	return "ephemeral-storage"
}

// tell brings the pressures up to date.
func (m *Manager) tell(low []met) {
	m.mu.Lock()
	now := m.now()
	for _, t := range low {
		m.seen[condition(t.Signal)] = now
	}
	holds := func(c corev1.NodeConditionType) bool {
		at, ok := m.seen[c]
		if ok && !at.Equal(now) && now.Sub(at) >= m.transition {
			delete(m.seen, c)
			return false
		}
		return ok
	}
	before := m.pressures
	m.pressures = Pressures{Memory: holds(corev1.NodeMemoryPressure), Disk: holds(corev1.NodeDiskPressure), PID: holds(corev1.NodePIDPressure)}
	changed := before != m.pressures
	m.mu.Unlock()
	if changed {
		m.deps.Changed()
	}
}

// makeRoom evicts the largest writer, one at a time.
func (m *Manager) makeRoom(writers []Writer, low met) {
	victim, ok := choose(writers)
	if !ok {
		m.complain("the disk is nearly full, and no pod can be evicted for it: remove what else is on it, or make it larger")
		return
	}
	m.complaint = ""
	m.evicted, m.since, m.left = victim.UID, m.now(), 0
	text := message(victim, low)
	m.deps.Logger.Warn("evicting a pod: the node's disk is nearly full", "pod", victim.Name, "used", victim.Used, "signal", low.Signal, "available", low.Available)
	m.deps.Evict(victim.UID, text)
}

// complain logs what is new.
func (m *Manager) complain(text string) {
	if text != m.complaint {
		m.complaint = text
		m.deps.Logger.Error(text)
	}
}

// choose picks the pod that uses most beyond what it asked for.
func choose(writers []Writer) (Writer, bool) {
	able := slices.DeleteFunc(slices.Clone(writers), func(w Writer) bool { return w.Critical || w.Used <= 0 })
	if len(able) == 0 {
		return Writer{}, false
	}
	return slices.MinFunc(able, func(a, b Writer) int {
		return cmp.Or(cmp.Compare(b.Used-b.Requested, a.Used-a.Requested), cmp.Compare(b.Used, a.Used), cmp.Compare(a.UID, b.UID))
	}), true
}

// message tells why, in the kubelet's words.
func message(w Writer, low met) string {
	name := resourceOf(low.Signal)
	quantity := func(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
	var b strings.Builder
	fmt.Fprintf(&b, "The node was low on resource: %s. Threshold quantity: %s, available: %s. ", name, quantity(low.Of(low.Capacity)), kibibytes(low.Available))
	for _, c := range w.Containers {
		if c.Used > c.Requested {
			fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of %s. ", c.Name, kibibytes(c.Used), quantity(c.Requested), name)
		}
	}
	return b.String()
}

// kibibytes is a measured amount as the kubelet tells it.
func kibibytes(n int64) string {
	if n < 1<<10 {
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return fmt.Sprintf("%dKi", n>>10)
}
