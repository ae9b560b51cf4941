package scheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/framework"
)

// Metrics are what schedulers count, under the names of kube-scheduler's. They
// outlive a scheduler: one that follows another counts on. A nil one counts
// nothing. What a single call of a plugin takes the plugin host tells
// (scheduler_plugin_execution_duration_seconds); nothing here is done for each node.
type Metrics struct {
	attempts    *prometheus.CounterVec
	attempt     *prometheus.HistogramVec
	algorithm   prometheus.Histogram
	points      *prometheus.HistogramVec
	evaluations *prometheus.CounterVec
	permitWait  *prometheus.HistogramVec
	cache       *prometheus.GaugeVec
	goroutines  *prometheus.GaugeVec
	handling    *prometheus.HistogramVec
	hints       *prometheus.HistogramVec
	tracked     *prometheus.GaugeVec
	evicting    *prometheus.HistogramVec
	evictions   *prometheus.CounterVec

	nodes, pods, assumed, binding, prioritizing prometheus.Gauge

	queue *queueMetrics
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns metrics that count nothing yet.
func NewMetrics() *Metrics {
	const subsystem = "scheduler"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels)
	}
	fromMillisecond := prometheus.ExponentialBuckets(0.001, 2, 15)
	m := &Metrics{
		queue: newQueueMetrics(),
		attempts: counter("schedule_attempts_total",
			"Attempts to schedule pods by result: scheduled, unschedulable, or error for a problem of the scheduler's own.", "result", "profile"),
		attempt: histogram("scheduling_attempt_duration_seconds",
			"How long attempts took: the decision and the binding.", fromMillisecond, "result", "profile"),
		algorithm: prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "scheduling_algorithm_duration_seconds", Help: "How long decisions took.", Buckets: fromMillisecond,
		}),
		points: histogram("framework_extension_point_duration_seconds",
			"How long all plugins of a point of the cycle took for an attempt, with what of their answers was kept.",
			prometheus.ExponentialBuckets(0.0001, 2, 12), "extension_point", "status", "profile"),
		evaluations: counter("plugin_evaluation_total",
			"Attempts that took in what a plugin answered, now or before.", "plugin", "extension_point", "profile"),
		permitWait: histogram("permit_wait_duration_seconds", "How long pods waited at permit.", fromMillisecond, "result"),
		cache:      gauge("cache_size", "Nodes, pods and assumed pods that the scheduler knows.", "type"),
		goroutines: gauge("goroutines", "Goroutines at work, by what they do.", "operation"),
		handling: histogram("event_handling_duration_seconds", "How long the scheduler took to take in what happened.",
			prometheus.ExponentialBuckets(0.0001, 2, 12), "event"),
		hints: histogram("queueing_hint_execution_duration_seconds",
			"How long plugins took to say whether an event helps, of a call about several events its part of each.",
			prometheus.ExponentialBuckets(0.00001, 1.5, 20), "plugin", "event", "hint"),
		tracked: gauge("inflight_events", "Events that pods which wait were not looked at for yet.", "event"),
		evicting: histogram("preemption_goroutines_duration_seconds", "How long the eviction of a pod's victims took.",
			prometheus.ExponentialBuckets(0.01, 2, 20), "result"),
		evictions: counter("preemption_goroutines_execution_total", "Times that a pod's victims were evicted.", "result"),
	}
	m.prioritizing = m.goroutines.WithLabelValues("prioritizing_extender")
	m.nodes, m.pods, m.assumed = m.cache.WithLabelValues("nodes"), m.cache.WithLabelValues("pods"), m.cache.WithLabelValues("assumed_pods")
	m.binding = m.goroutines.WithLabelValues("binding")
	return m
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.attempts, m.attempt, m.algorithm, m.points, m.evaluations, m.permitWait, m.cache, m.goroutines, m.queue,
		m.handling, m.hints, m.tracked, m.evicting, m.evictions}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(out)
	}
}

// result is how an attempt ended, as kube-scheduler's metrics name it.
type result int

const (
	resultScheduled result = iota
	resultUnschedulable
	resultError
)

var resultNames = [...]string{resultScheduled: "scheduled", resultUnschedulable: "unschedulable", resultError: "error"}

// resultOf is the result for a reason of the condition PodScheduled.
func resultOf(reason string) result {
	if reason == v1.PodReasonUnschedulable {
		return resultUnschedulable
	}
	return resultError
}

// profileMetrics are the metrics of one profile, found once. The cycle alone
// counts attempts; nil counts nothing.
type profileMetrics struct {
	*Metrics
	name     string
	counters [len(resultNames)]prometheus.Counter
	times    [len(resultNames)]prometheus.Observer
	at       map[pointStatus]prometheus.Observer

	policy           Policy
	filters, scorers []prometheus.Counter
}

func (m *Metrics) profile(name string) *profileMetrics {
	if m == nil {
		return nil
	}
	p := &profileMetrics{Metrics: m, name: name, at: map[pointStatus]prometheus.Observer{}}
	for r, label := range resultNames {
		p.counters[r], p.times[r] = m.attempts.WithLabelValues(label, name), m.attempt.WithLabelValues(label, name)
	}
	return p
}

// ended counts an attempt.
func (p *profileMetrics) ended(r result, took time.Duration) {
	if p != nil {
		p.counters[r].Inc()
		p.times[r].Observe(max(took, 0).Seconds())
	}
}

// decided counts decisions, each of which took as long, and whose answers they were made on.
func (p *profileMetrics) decided(policy Policy, took time.Duration, feasible, decisions int) {
	if p == nil {
		return
	}
	for range decisions {
		p.algorithm.Observe(took.Seconds())
	}
	if policy == nil {
		return
	}
	if p.policy != policy {
		p.policy, p.filters, p.scorers = policy, nil, nil
		for _, info := range policy.Predicates() {
			p.filters = append(p.filters, p.evaluations.WithLabelValues(info.Name, framework.TitleFilter, p.name))
		}
		for _, info := range policy.Priorities() {
			p.scorers = append(p.scorers, p.evaluations.WithLabelValues(contractv1.UpstreamName(info.Name), framework.TitleScore, p.name))
		}
	}
	for _, c := range p.filters {
		c.Add(float64(decisions))
	}
	if feasible == 0 {
		return
	}
	for _, c := range p.scorers {
		c.Add(float64(decisions))
	}
}

// Start is when something begins whose time is counted.
func (p *profileMetrics) Start() time.Time {
	if p == nil {
		return time.Time{}
	}
	return time.Now()
}

// Since counts the time that a point took, and returns when it ended.
func (p *profileMetrics) Since(began time.Time, title, status string) time.Time {
	if p == nil {
		return began
	}
	key := pointStatus{title, status}
	o := p.at[key]
	if o == nil {
		o = p.points.WithLabelValues(title, status, p.name)
		p.at[key] = o
	}
	now := time.Now()
	o.Observe(now.Sub(began).Seconds())
	return now
}

// stepped counts what plugins at points took of a call that was made, by point. Any
// goroutine may call it.
func (m *Metrics) stepped(profile string, points contractv1.Points, c *contractv1.CycleCall, took time.Duration) {
	if m == nil || len(c.Results) == 0 {
		return
	}
	var told time.Duration
	for _, r := range c.Results {
		told += time.Duration(r.GetNanoseconds())
	}
	for k := 0; k < len(c.Results); {
		at, code, sum := c.Steps[k].Point, contractv1.Code_SUCCESS, time.Duration(0)
		first := k
		for ; k < len(c.Results) && c.Steps[k].Point == at; k++ {
			sum += time.Duration(c.Results[k].GetNanoseconds())
			if answer := c.Results[k].GetCode(); answer != contractv1.Code_SUCCESS && answer != contractv1.Code_SKIP {
				code = answer
			}
		}
		if at == contractv1.Point_BIND {
			switch last := c.Results[k-1]; {
			case last.GetCode() == contractv1.Code_SKIP && points[at][c.Steps[k-1].Plugin].Last:
				code = last.GetCode()
			case last.GetCode() == contractv1.Code_SKIP, last.GetCode() == contractv1.Code_SUCCESS && !last.GetBound():
				continue // another binds, who is counted
			}
		}
		if told == 0 { // nobody said what is whose
			sum = took * time.Duration(k-first) / time.Duration(len(c.Results))
		}
		m.points.WithLabelValues(framework.PointTitle(at), contractv1.CodeNames[code], profile).Observe(sum.Seconds())
	}
}

// handled counts the time that taking in something took.
func (m *Metrics) handled(event string, began time.Time) {
	m.handling.WithLabelValues(event).Observe(time.Since(began).Seconds())
}

// hinted counts an answer about events, by the labels of events that helped.
func (m *Metrics) hinted(plugin string, events []string, helped []bool, failed bool, took time.Duration) {
	if m == nil {
		return
	}
	for k, event := range events {
		hint := "QueueSkip"
		switch {
		case failed:
			hint = "Error"
		case helped[k]:
			hint = "Queue"
		}
		m.hints.WithLabelValues(plugin, event, hint).Observe(took.Seconds() / float64(len(events)))
	}
}

// tracks notes which events wait to be looked at.
func (m *Metrics) tracks(events []clusterEvent) {
	if m == nil {
		return
	}
	m.tracked.Reset()
	for i := range events {
		m.tracked.WithLabelValues(events[i].label()).Inc()
	}
}

// evicted counts how the eviction of a pod's victims ended. Any goroutine may call it.
func (m *Metrics) evicted(began time.Time, err error) {
	if m == nil {
		return
	}
	result := "success"
	if err != nil {
		result = "error"
	}
	m.evicting.WithLabelValues(result).Observe(time.Since(began).Seconds())
	m.evictions.WithLabelValues(result).Inc()
}

// scores notes that extenders are asked for scores, until it is called with -1.
func (m *Metrics) scores(extenders int) {
	if m != nil {
		m.prioritizing.Add(float64(extenders))
	}
}

type pointStatus struct{ title, status string }

// binds notes that bindings are being written. Any goroutine may call it.
func (m *Metrics) binds(n int) time.Time {
	if m == nil {
		return time.Time{}
	}
	m.binding.Add(float64(n))
	return time.Now()
}

// wrote counts the time that writing bindings took, by how they ended. Any goroutine
// may call it.
func (m *Metrics) wrote(began time.Time, requests []bindRequest, results []bindResult) {
	if m == nil {
		return
	}
	m.binding.Sub(float64(len(requests)))
	took := time.Since(began).Seconds()
	var times prometheus.Observer
	for i := range requests {
		profile, failed := requests[i].profile, results[i].err != nil
		// Mostly it is that of the one before, and finding it takes longer than counting.
		if times == nil || profile != requests[i-1].profile || failed != (results[i-1].err != nil) {
			code := contractv1.Code_SUCCESS
			if failed {
				code = contractv1.Code_ERROR
			}
			times = m.points.WithLabelValues(framework.PointTitle(contractv1.Point_BIND), contractv1.CodeNames[code], profile)
		}
		times.Observe(took)
	}
}

func (m *Metrics) waited(outcome string, took time.Duration) {
	if m != nil {
		m.permitWait.WithLabelValues(outcome).Observe(max(took, 0).Seconds())
	}
}

// sizes notes what the scheduler knows.
func (m *Metrics) sizes(nodes, pods, assumed int) {
	if m != nil {
		m.nodes.Set(float64(nodes))
		m.pods.Set(float64(pods))
		m.assumed.Set(float64(assumed))
	}
}
