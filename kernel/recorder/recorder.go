package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
)

// Sink writes events; errors are those of the API.
type Sink interface {
	// Create writes new events and answers in their order. What they point to is the sink's;
	// they themselves, which it may change, are written over when it has returned.
	Create(ctx context.Context, events []*eventsv1.Event) []error
	// SetSeries sets the series of an event that was written.
	SetSeries(ctx context.Context, namespace, name string, series *eventsv1.EventSeries) error
}

// Config holds what may be set. The zero value means the defaults.
type Config struct {
	// Queue is how many events may wait to be written. Default 131,072.
	Queue int
	// Batch is how many are handed to the sink at once at most, and Writers how many
	// times at once. Defaults 512 and 2.
	Batch, Writers int
	// Held is how many may wait for what is more urgent (Hold). Default 16,384, which
	// take 6 MB.
	Held int
	// Once are reasons that an object gets one event for.
	Once []string
}

// Deps are what a Recorder works with.
type Deps struct {
	Sink   Sink
	Scheme *runtime.Scheme // knows the kinds of objects that events are about
	Log    *slog.Logger
	// Metrics count what is not written; nil: nobody does.
	Metrics *Metrics
	// Clock is the real one when nil.
	Clock clock.WithTicker
}

// Metrics outlive a Recorder: one that follows another counts on.
type Metrics struct{ dropped *prometheus.CounterVec }

// NewMetrics returns metrics that count nothing yet.
func NewMetrics() *Metrics {
	return &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: "scheduler", Name: "events_dropped_total",
		Help: "Events dropped, by cause: too many waited (queue), or the API rejected the write or did not answer (write).",
	}, []string{"cause"})}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) { m.dropped.Describe(out) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) { m.dropped.Collect(out) }

// Why an event was not written.
const (
	causeQueue = "queue"
	causeWrite = "write"
)

// Recorder takes events and writes them while it runs.
type Recorder struct {
	cfg     Config
	deps    Deps
	host    string
	once    map[string]bool
	series  *correlator
	reports atomic.Pointer[[2]string] // the last controller and its instance

	mu sync.Mutex
	// queue is what waits, in batches of which the last may grow.
	queue   [][]occurrence
	waiting int // of the queue
	busy    int // writers
	pausing int // of busy, before they try again
	holding bool
	timed   bool            // somebody looks when the oldest was held for long enough
	run     context.Context // of writers; nil: there may be none
	stopped <-chan struct{}
	writers sync.WaitGroup
}

// occurrence is what somebody said, not put together yet.
type occurrence struct {
	controller           string
	regarding            subject
	related              runtime.Object
	kind, reason, action string
	note                 string
	args                 []any
	at                   time.Time
}

// subject is what an event is about: of a pod what the event says of it, as
// the pod would be kept for that alone.
type subject struct {
	other                         runtime.Object
	namespace, name, uid, version string
}

func subjectOf(obj runtime.Object) subject {
	if pod, ok := obj.(*corev1.Pod); ok && pod != nil {
		return subject{namespace: pod.Namespace, name: pod.Name, uid: string(pod.UID), version: pod.ResourceVersion}
	}
	return subject{other: obj}
}

// New checks its arguments and starts nothing.
func New(cfg Config, deps Deps) (*Recorder, error) {
	if cfg.Queue == 0 {
		cfg.Queue = 1 << 17
	}
	if cfg.Writers == 0 {
		cfg.Writers = 2
	}
	if cfg.Batch == 0 {
		cfg.Batch = 512
	}
	if cfg.Held == 0 {
		cfg.Held = 1 << 14
	}
	switch {
	case cfg.Queue < 1 || cfg.Writers < 1 || cfg.Batch < 1 || cfg.Held < 1:
		return nil, errors.New("event recorder: a limit is negative")
	case deps.Sink == nil || deps.Scheme == nil:
		return nil, errors.New("event recorder: no sink or no scheme")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("event recorder: name of this host: %w", err)
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics()
	}
	r := &Recorder{cfg: cfg, deps: deps, host: host, once: map[string]bool{}, series: newCorrelator()}
	for _, reason := range cfg.Once {
		r.once[reason] = true
	}
	return r, nil
}

// For returns a recorder of what a controller does, in whose name its events are.
func (r *Recorder) For(controller string) *Controller { return &Controller{r, controller} }

// Controller records in the name of one controller. It is an events.EventRecorder.
type Controller struct {
	recorder *Recorder
	name     string
}

// Eventf takes an event. Objects are read later and may not be changed any more.
func (c *Controller) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	c.recorder.take(occurrence{c.name, subjectOf(regarding), related, eventtype, reason, action, note, args, c.recorder.deps.Clock.Now()})
}

func (r *Recorder) take(o occurrence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting >= r.cfg.Queue {
		r.drop(causeQueue)
		return
	}
	last := len(r.queue) - 1
	if last < 0 || len(r.queue[last]) == r.cfg.Batch {
		r.queue = append(r.queue, nil)
		last++
	}
	r.queue[last] = append(r.queue[last], o)
	r.waiting++
	r.staff()
}

func (r *Recorder) drop(cause string) { r.deps.Metrics.dropped.WithLabelValues(cause).Inc() }
