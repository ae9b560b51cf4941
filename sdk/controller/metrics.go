package controller

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"

	"pintle.dev/pintle/sdk/metrics"
)

// Results of a reconciliation, as Reconciled counts them.
const (
	ResultSuccess      = "success"
	ResultError        = "error"
	ResultRequeueAfter = "requeue_after"
)

// measures are the process's metrics: those of client-go's work queues, under the
// names and with the buckets of every Kubernetes component, and of
// reconciliations, under those of controller-runtime.
type measures struct {
	once sync.Once

	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	latency, work              *prometheus.HistogramVec

	reconciled *prometheus.CounterVec
	took       *prometheus.HistogramVec
}

var _ workqueue.MetricsProvider = (*measures)(nil)

var processMeasures = newMeasures()

func newMeasures() *measures {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: "workqueue", Name: name, Help: help}, []string{"name"})
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "workqueue", Name: name, Help: help}, []string{"name"})
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: "workqueue", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(10e-9, 10, 10),
		}, []string{"name"})
	}
	return &measures{
		depth:      gauge("depth", "Keys that wait in a work queue."),
		unfinished: gauge("unfinished_work_seconds", "How long the keys that are worked on now have been, together."),
		longest:    gauge("longest_running_processor_seconds", "How long the oldest of the keys that are worked on now has been."),
		adds:       counter("adds_total", "Keys that were put into a work queue."),
		retries:    counter("retries_total", "Keys that were put into a work queue again, with back-off."),
		latency:    histogram("queue_duration_seconds", "How long keys wait in a work queue."),
		work:       histogram("work_duration_seconds", "How long keys are worked on."),
		reconciled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_reconcile_total", Help: "Reconciliations by result: success, error or requeue_after.",
		}, []string{"controller", "result"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_reconcile_time_seconds", Help: "How long a reconciliation takes.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}, []string{"controller"}),
	}
}

// begin registers all once; it is called before any queue is made.
func (m *measures) begin() {
	m.once.Do(func() {
		workqueue.SetProvider(m)
		metrics.Register(m.depth, m.unfinished, m.longest, m.adds, m.retries, m.latency, m.work, m.reconciled, m.took)
	})
}

// Reconciled counts one reconciliation of a controller, or of one of its queues.
func Reconciled(name, result string, took time.Duration) {
	processMeasures.reconciled.WithLabelValues(name, result).Inc()
	processMeasures.took.WithLabelValues(name).Observe(took.Seconds())
}

// NewDepthMetric implements workqueue.MetricsProvider, as do the others.
func (m *measures) NewDepthMetric(name string) workqueue.GaugeMetric {
	return m.depth.WithLabelValues(name)
}

// NewAddsMetric counts keys.
func (m *measures) NewAddsMetric(name string) workqueue.CounterMetric {
	return m.adds.WithLabelValues(name)
}

// NewLatencyMetric observes waits.
func (m *measures) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return m.latency.WithLabelValues(name)
}

// NewWorkDurationMetric observes work.
func (m *measures) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return m.work.WithLabelValues(name)
}

// NewUnfinishedWorkSecondsMetric is set every half a second.
func (m *measures) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.unfinished.WithLabelValues(name)
}

// NewLongestRunningProcessorSecondsMetric is set with it.
func (m *measures) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.longest.WithLabelValues(name)
}

// NewRetriesMetric counts keys that failed.
func (m *measures) NewRetriesMetric(name string) workqueue.CounterMetric {
	return m.retries.WithLabelValues(name)
}
