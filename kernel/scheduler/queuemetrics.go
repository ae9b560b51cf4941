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
	refused     *prometheus.GaugeVec
	victims     prometheus.Histogram
	preemptions prometheus.Counter
	attempts    prometheus.Histogram
	sli         *prometheus.HistogramVec
	flushed     prometheus.Counter

	sliOf [15]atomic.Value // prometheus.Observer: of sli by attempts, once there is one

	// How many pods wait where, as of the cycle's last round.
	active, backoff, unschedulable, gated atomic.Int64
}

func newQueueMetrics() *queueMetrics {
	const subsystem = "scheduler"
	return &queueMetrics{
		incoming: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "queue_incoming_pods_total", Help: "Pods that came into a part of the queue, by what brought them.",
		}, []string{"queue", "event"}),
		refused: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Subsystem: subsystem, Name: "unschedulable_pods", Help: "Pods that wait because a plugin refused them, by plugin; each counts for all that did.",
		}, []string{"plugin", "profile"}),
		victims: prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "preemption_victims", Help: "Victims of a preemption.", Buckets: prometheus.ExponentialBuckets(1, 2, 7),
		}),
		preemptions: prometheus.NewCounter(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "preemption_attempts_total", Help: "Times that a post-filter plugin was asked to help a pod that fits nowhere.",
		}),
		attempts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "pod_scheduling_attempts", Help: "Attempts that pods took until they were bound.", Buckets: prometheus.ExponentialBuckets(1, 2, 5),
		}),
		sli: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "pod_scheduling_sli_duration_seconds",
			Help: "How long pods took from when they first entered the queue until they were bound, by attempts.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 20),
		}, []string{"attempts"}),
		flushed: prometheus.NewCounter(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "pod_scheduled_after_flush_total",
			Help: "Pods that were bound after nothing but time had brought them back: a plugin may not have declared all events that help.",
		}),
	}
}

func (m *queueMetrics) came(queue, event string) { m.incoming.WithLabelValues(queue, event).Inc() }

// hold notes how many pods wait.
func (m *queueMetrics) hold(q *queue) {
	m.active.Store(int64(q.active.Len() + len(q.doorstep) + len(q.heldBack)))
	m.backoff.Store(int64(q.backoff.Len() + q.faulty.Len()))
	m.unschedulable.Store(int64(len(q.pool) - q.gates))
	m.gated.Store(int64(q.gates))
}

// scheduled counts a pod that was bound.
func (m *queueMetrics) scheduled(p *podEntry, now time.Time) {
	m.attempts.Observe(float64(p.attempts))
	m.sliBy(p.attempts).Observe(max(now.Sub(p.since), 0).Seconds())
	if p.flushed {
		m.flushed.Inc()
	}
}

// sliBy is sli's of pods that took so many attempts.
func (m *queueMetrics) sliBy(attempts int) prometheus.Observer {
	if attempts < 0 || attempts >= len(m.sliOf) {
		return m.sli.WithLabelValues("15+")
	}
	known := &m.sliOf[attempts]
	if o, ok := known.Load().(prometheus.Observer); ok {
		return o
	}
	o := m.sli.WithLabelValues(strconv.Itoa(attempts))
	known.Store(o)
	return o
}

var pendingPods = prometheus.NewDesc("scheduler_pending_pods",
	"Pods that wait: in the queue (active), for the end of their back-off (backoff), for something to help them (unschedulable), or to be let in (gated).",
	[]string{"queue"}, nil)

// waits counts a pod that plugins refused; by -1, one that does not wait any more.
func (m *queueMetrics) waits(p *podEntry, by float64) {
	if p.place == gated {
		return
	}
	for k := range p.failed.Rejectors {
		if plugin := p.failed.Rejectors[k].Name; plugin != "" {
			m.refused.WithLabelValues(plugin, p.Object.Spec.SchedulerName).Add(by)
		}
	}
}

// rest forgets what waits: the scheduler has ended.
func (m *queueMetrics) rest() {
	for _, gauge := range []*atomic.Int64{&m.active, &m.backoff, &m.unschedulable, &m.gated} {
		gauge.Store(0)
	}
	m.refused.Reset()
}

// ofQueue are the metrics of the queue; of nobody's, if there are none to count.
func (m *Metrics) ofQueue() *queueMetrics {
	if m == nil {
		return newQueueMetrics()
	}
	return m.queue
}

func (m *queueMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.incoming, m.refused, m.victims, m.preemptions, m.attempts, m.sli, m.flushed}
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
