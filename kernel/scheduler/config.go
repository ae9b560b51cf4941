package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/readable"
)

// Config holds what an operator may set. The zero value means the defaults.
type Config struct {
	// Seed makes the choice between tied nodes repeatable. 0: a random seed.
	Seed uint64
	// BindWorkers is the number of bindings in flight, but for those that BindAll
	// writes. Default 64, at most 1024.
	BindWorkers int
	// MaxClasses bounds the pod shapes whose results are cached; the one used
	// longest ago makes room. A class costs about 100 bytes a node with the
	// classic set. Default 128.
	MaxClasses int
	// BackoffInitial and BackoffMax bound how long a failed pod waits before
	// its next attempt; the wait doubles. Defaults 1 s and 10 s.
	BackoffInitial, BackoffMax time.Duration
	// UnschedulableFlush is how long a pod stays in the unschedulable pool when
	// no event brings it back. Default 5 min.
	UnschedulableFlush time.Duration
	// AssumeTTL is how long a bound pod stays assumed without being seen bound.
	// Then the reservation ends and the pod is tried again, which the API
	// refuses if it is bound after all. Default 60 s.
	AssumeTTL time.Duration
	// Explain is the number of last decisions kept. Default 1024.
	Explain int
	// FirstGeneration is where the generations of deltas begin. A scheduler that
	// follows another over the same policies begins far beyond that one's, so
	// that nobody takes its first delta for the next.
	FirstGeneration uint64
}

// Binder writes one binding: POST to the pod's binding subresource.
type Binder func(ctx context.Context, binding *v1.Binding) error

// StatusWriter sets a condition of the pod's status, unless it is nil, and
// status.nominatedNodeName, unless that is nil, in one write.
type StatusWriter func(ctx context.Context, pod *v1.Pod, condition *v1.PodCondition, nominated *string) error

// Recorder takes events. events.EventRecorder of client-go is one. It must not
// block.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// ProfileRecorder is a Recorder that has one for each profile, by schedulerName,
// in whose name its events are.
type ProfileRecorder interface {
	Recorder
	Of(schedulerName string) Recorder
}

// ReasonScheduled is the reason of the event that a pod was bound, which it has one of.
const ReasonScheduled = "Scheduled"

// Deps are the parts of the house the scheduler works with. Objects that come
// out of the ListerWatchers are shared and never changed here.
type Deps struct {
	Pods  cache.ListerWatcher // *v1.Pod of all namespaces
	Nodes cache.ListerWatcher // *v1.Node
	// Objects are the other sources, by the names of package readable. A kind without
	// a source is empty to the plugins.
	Objects map[string]cache.ListerWatcher
	// Profiles are the policies by spec.schedulerName, at least one.
	Profiles map[string]PolicySource
	Bind     Binder
	// BindAll is Bind of several pods in one write; the errors are in their order,
	// and so are the pods as Pods gave them.
	// Nil: each is bound by itself, and so are all where there are extenders.
	BindAll func(context.Context, []*v1.Binding, []*v1.Pod) []error
	// Extenders are asked in this order.
	Extenders []Extender
	// Status and Events may be nil: nothing is written then.
	Status StatusWriter
	Events Recorder
	// Busy, if not nil, is told when pods begin to be decided about and bound one after the
	// other, and when that has ended: work that is less urgent may wait for that. It
	// has to return at once.
	Busy func(bool)
	// Evict, with Status, does what post-filter plugins ask for. Nil: nothing is
	// done for pods that fit nowhere.
	Evict Evicter
	Log   *slog.Logger
	// Metrics count what the scheduler does; nil: nobody does.
	Metrics *Metrics
	// Tracer makes a span of each attempt to place a pod, below which plugins have
	// theirs. Nil: there are none, and it costs nothing.
	Tracer oteltrace.Tracer
	// Clock is the real one when nil.
	Clock clock.WithTicker
}

func (c *Config) complete() error {
	fill := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	fill(&c.BackoffInitial, time.Second)
	fill(&c.BackoffMax, 10*time.Second)
	fill(&c.UnschedulableFlush, 5*time.Minute)
	fill(&c.AssumeTTL, time.Minute)
	count := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	count(&c.BindWorkers, 64)
	count(&c.MaxClasses, 128)
	count(&c.Explain, 1024)
	switch {
	case c.BindWorkers < 1 || c.BindWorkers > 1024:
		return fmt.Errorf("scheduler: bind workers %d: use 1 to 1024", c.BindWorkers)
	case c.MaxClasses < 1:
		return fmt.Errorf("scheduler: max classes %d: use 1 or more", c.MaxClasses)
	case c.BackoffInitial < 0 || c.BackoffMax < c.BackoffInitial:
		return fmt.Errorf("scheduler: back-off from %v to %v: the largest may not be below the first", c.BackoffInitial, c.BackoffMax)
	case c.UnschedulableFlush < 0 || c.AssumeTTL < 0:
		return errors.New("scheduler: a duration is negative")
	case c.Explain < 0:
		return errors.New("scheduler: a limit is negative")
	}
	return nil
}

func (d *Deps) check() error {
	switch {
	case d.Pods == nil:
		return errors.New("scheduler: no source of pods")
	case d.Nodes == nil:
		return errors.New("scheduler: no source of nodes")
	case len(d.Profiles) == 0:
		return errors.New("scheduler: no profile")
	case d.Bind == nil:
		return errors.New("scheduler: no binder")
	}
	for kind := range d.Objects {
		if _, ok := readable.Of(kind); !ok {
			return fmt.Errorf("scheduler: objects of kind %q: not a kind that plugins can read", kind)
		}
	}
	for name, profile := range d.Profiles {
		if profile == nil {
			return fmt.Errorf("scheduler: profile %q: no policy source", name)
		}
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Clock == nil {
		d.Clock = clock.RealClock{}
	}
	return nil
}
