package scheduler

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// queueMetrics are the queue's and the preemption's, in kube-scheduler's names.
type queueMetrics struct {
	incoming    *prometheus.CounterVec
	victims     prometheus.Histogram
	preemptions prometheus.Counter
	attempts    prometheus.Histogram
	sli         *prometheus.HistogramVec
	flushed     prometheus.Counter

	// How many pods wait where, as of the cycle's last round.
	active, backoff, unschedulable, gated atomic.Int64
}

const metricPrefix = "scheduler"

func newQueueMetrics() *queueMetrics {
	return &queueMetrics{
		incoming: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: metricPrefix, Name: "queue_incoming_pods_total",
			Help: "Number of pods added to scheduling queues by event and queue type.",
		}, []string{"queue", "event"}),
		victims: prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: metricPrefix, Name: "preemption_victims",
			Help: "Number of selected preemption victims", Buckets: prometheus.ExponentialBuckets(1, 2, 7),
		}),
		preemptions: prometheus.NewCounter(prometheus.CounterOpts{
			Subsystem: metricPrefix, Name: "preemption_attempts_total",
			Help: "Total preemption attempts in the cluster till now",
		}),
		attempts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: metricPrefix, Name: "pod_scheduling_attempts",
			Help: "Number of attempts to successfully schedule a pod.", Buckets: prometheus.ExponentialBuckets(1, 2, 5),
		}),
		sli: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: metricPrefix, Name: "pod_scheduling_sli_duration_seconds",
			Help:    "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 20),
		}, []string{"attempts"}),
		flushed: prometheus.NewCounter(prometheus.CounterOpts{
			Subsystem: metricPrefix, Name: "pod_scheduled_after_flush_total",
			Help: "Number of pods that were successfully scheduled after being flushed from unschedulablePods due to timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
		}),
	}
}

func (m *queueMetrics) came(queue, event string) { m.incoming.WithLabelValues(queue, event).Inc() }

// hold notes how many pods wait.
func (m *queueMetrics) hold(q *queue) {
	m.active.Store(int64(q.active.Len() + len(q.doorstep)))
	m.backoff.Store(int64(q.backoff.Len() + q.faulty.Len()))
	m.unschedulable.Store(int64(len(q.pool) - q.gates))
	m.gated.Store(int64(q.gates))
}

// scheduled counts a pod that was bound.
func (m *queueMetrics) scheduled(p *podEntry, now time.Time) {
	m.attempts.Observe(float64(p.attempts))
	label := "15+"
	if p.attempts < 15 {
		label = strconv.Itoa(p.attempts)
	}
	m.sli.WithLabelValues(label).Observe(max(now.Sub(p.since), 0).Seconds())
	if p.flushed {
		m.flushed.Inc()
	}
}

var pendingPods = prometheus.NewDesc("scheduler_pending_pods",
	"Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated.",
	[]string{"queue"}, nil)

// ofQueue are the metrics of the queue; of nobody's, if there are none to count.
func (m *Metrics) ofQueue() *queueMetrics {
	if m == nil {
		return newQueueMetrics()
	}
	return m.queue
}

func (m *queueMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.incoming, m.victims, m.preemptions, m.attempts, m.sli, m.flushed}
}

// Describe implements prometheus.Collector.
func (m *queueMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(out)
	}
	out <- pendingPods
}

// Collect implements prometheus.Collector.
func (m *queueMetrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(out)
	}
	for queue, count := range map[string]*atomic.Int64{
		queueActive: &m.active, queueBackoff: &m.backoff, queueUnschedulable: &m.unschedulable, queueGated: &m.gated,
	} {
		out <- prometheus.MustNewConstMetric(pendingPods, prometheus.GaugeValue, float64(count.Load()), queue)
	}
}
