package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/clock"
)

// Sink writes events; errors are those of the API.
type Sink interface {
	// Create writes new events, which the sink may change, and answers in their order.
	Create(ctx context.Context, events []*eventsv1.Event) []error
	// SetSeries sets the series of an event that was written.
	SetSeries(ctx context.Context, namespace, name string, series *eventsv1.EventSeries) error
}

// Config holds what may be set. The zero value means the defaults.
type Config struct {
	// Queue is how many events may wait to be written. Default 131,072.
	Queue int
	// Batch is how many are handed to the sink at once at most, and Writers how many
	// times at once. Defaults 128 and 2.
	Batch, Writers int
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
		Help: "Events that nobody can read, because too many waited to be written (queue) or the API took them for wrong or could not be reached (write).",
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

// attempts bounds how often an event is tried to be written, and retryAfter is the
// time between.
const (
	attempts   = 12
	retryAfter = 10 * time.Second
)

// Recorder takes events and writes them while it runs.
type Recorder struct {
	cfg    Config
	deps   Deps
	host   string
	once   map[string]bool
	series *correlator

	mu      sync.Mutex
	queue   []occurrence
	busy    int // writers
	run     context.Context
	writers sync.WaitGroup
}

// occurrence is what somebody said, not put together yet.
type occurrence struct {
	controller           string
	regarding, related   runtime.Object
	kind, reason, action string
	note                 string
	args                 []any
	at                   time.Time
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
		cfg.Batch = 128
	}
	switch {
	case cfg.Queue < 1 || cfg.Writers < 1 || cfg.Batch < 1:
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
	c.recorder.take(occurrence{c.name, regarding, related, eventtype, reason, action, note, args, c.recorder.deps.Clock.Now()})
}

func (r *Recorder) take(o occurrence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) >= r.cfg.Queue {
		r.drop(causeQueue)
		return
	}
	r.queue = append(r.queue, o)
	r.staff()
}

func (r *Recorder) drop(cause string) { r.deps.Metrics.dropped.WithLabelValues(cause).Inc() }

// staff has a writer at work for what waits, as far as there may be more. The
// lock is held.
func (r *Recorder) staff() {
	if r.run == nil || r.busy >= r.cfg.Writers || r.busy >= len(r.queue) {
		return
	}
	r.busy++
	ctx := r.run
	r.writers.Go(func() { r.write(ctx) })
}

// next is what a writer writes next; without anything it is one no more.
func (r *Recorder) next(ctx context.Context, into []occurrence) []occurrence {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 || ctx.Err() != nil {
		r.busy--
		if len(r.queue) == 0 {
			r.queue = nil
		}
		return nil
	}
	n := min(len(r.queue), r.cfg.Batch)
	into = append(into[:0], r.queue[:n]...)
	clear(r.queue[:n])
	r.queue = r.queue[n:]
	return into
}

func (r *Recorder) write(ctx context.Context) {
	var batch []occurrence
	for {
		if batch = r.next(ctx, batch); batch == nil {
			return
		}
		r.record(ctx, batch)
	}
}

// Run writes events until ctx ends. It can be called once.
func (r *Recorder) Run(ctx context.Context) error {
	r.mu.Lock()
	if r.run != nil {
		r.mu.Unlock()
		return errors.New("event recorder: run was called twice")
	}
	r.run = ctx
	for range r.cfg.Writers {
		r.staff()
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.queue = nil
		r.cfg.Queue = 0 // nobody writes any more
		r.mu.Unlock()
		r.writers.Wait()
	}()
	finish, refresh := r.deps.Clock.NewTicker(finishAfter), r.deps.Clock.NewTicker(refreshAfter)
	defer finish.Stop()
	defer refresh.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-finish.C():
			for _, s := range r.series.finished(r.deps.Clock.Now()) {
				r.tellSeries(ctx, s)
			}
		case <-refresh.C():
			for _, s := range r.series.running() {
				r.tellSeries(ctx, s)
			}
		}
	}
}

// record puts events together, and writes those that no series counts.
func (r *Recorder) record(ctx context.Context, batch []occurrence) {
	fresh := make([]*eventsv1.Event, 0, len(batch))
	var seconds []*eventsv1.Event
	for i := range batch {
		event, err := r.event(&batch[i])
		if err != nil {
			r.drop(causeWrite)
			r.deps.Log.Warn("event not written", "reason", batch[i].reason, "err", err)
			continue
		}
		if !r.once[event.Reason] {
			series, second := r.series.add(event, batch[i].at)
			if second {
				seconds = append(seconds, series)
			}
			if series != nil {
				continue
			}
		}
		fresh = append(fresh, event)
	}
	r.persist(ctx, fresh, func(events []*eventsv1.Event) []error { return r.deps.Sink.Create(ctx, events) })
	for _, series := range seconds {
		r.tellSeries(ctx, series)
	}
}

// tellSeries writes how often an event came; one that is not there any more is
// written anew.
func (r *Recorder) tellSeries(ctx context.Context, event *eventsv1.Event) {
	r.persist(ctx, []*eventsv1.Event{event}, func([]*eventsv1.Event) []error {
		err := r.deps.Sink.SetSeries(ctx, event.Namespace, event.Name, event.Series)
		if apierrors.IsNotFound(err) {
			if err = r.deps.Sink.Create(ctx, []*eventsv1.Event{event.DeepCopy()})[0]; apierrors.IsAlreadyExists(err) {
				err = errEarly
			}
		}
		return []error{err}
	})
}

// errEarly: the first event of a series was written between two looks.
var errEarly = errors.New("the event came to be meanwhile")

// persist writes events, and those again whose writing failed for reasons that pass.
func (r *Recorder) persist(ctx context.Context, events []*eventsv1.Event, write func([]*eventsv1.Event) []error) {
	for attempt := 1; len(events) > 0; attempt++ {
		var again []*eventsv1.Event
		wait := time.Millisecond
		for i, err := range write(events) {
			var refused apierrors.APIStatus
			var unsendable *rest.RequestConstructionError
			switch {
			case err == nil || apierrors.IsAlreadyExists(err):
			case errors.As(err, &refused) || errors.As(err, &unsendable) || attempt == attempts:
				r.drop(causeWrite)
				r.deps.Log.Warn("event not written", "event", events[i].Namespace+"/"+events[i].Name, "attempts", attempt, "err", err)
			default:
				again = append(again, events[i])
				if !errors.Is(err, errEarly) {
					wait = retryAfter
				}
			}
		}
		if events = again; len(events) == 0 {
			return
		}
		pause := r.deps.Clock.NewTimer(wait)
		select {
		case <-pause.C():
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// event is what somebody said, as the API takes it.
func (r *Recorder) event(o *occurrence) (*eventsv1.Event, error) {
	regarding, err := r.reference(o.regarding)
	if err != nil {
		return nil, err
	}
	note := o.note
	if len(o.args) > 0 {
		note = fmt.Sprintf(o.note, o.args...)
	}
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: util.GenerateEventName(regarding.Name, o.at.UnixNano()), Namespace: regarding.Namespace},
		EventTime:           metav1.NewMicroTime(time.UnixMicro(o.at.UnixMicro())),
		ReportingController: o.controller, ReportingInstance: o.controller + "-" + r.host,
		Action: o.action, Reason: o.reason, Type: o.kind, Regarding: *regarding, Note: note,
	}
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault
	}
	if o.related != nil {
		if event.Related, err = r.reference(o.related); err != nil {
			return nil, err
		}
	}
	return event, nil
}

// reference points to an object; to pods, most of all, without asking the scheme.
func (r *Recorder) reference(obj runtime.Object) (*corev1.ObjectReference, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		return &corev1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		}, nil
	}
	return reference.GetReference(r.deps.Scheme, obj)
}
