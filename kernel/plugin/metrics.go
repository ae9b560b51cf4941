package plugin

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Collector gives pintle_plugin_*: what the host counts of each plugin. It is
// read when it is asked for, and costs calls nothing.
func (h *Host) Collector() prometheus.Collector { return collector{h} }

type collector struct{ host *Host }

var pluginLabels = []string{"plugin", "bundle", "kind"}

func metricDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("pintle_plugin_"+name, help, labels, nil)
}

// execution is what kube-scheduler tells of its plugins. Answers that are kept are
// no calls; one call is about many nodes.
var execution = prometheus.NewDesc("scheduler_plugin_execution_duration_seconds",
	"How long calls of a plugin took at a point of the cycle.", []string{"plugin", "extension_point", "status"}, nil)

// pointTitles are the points of the cycle as kube-scheduler's metrics name them, by kind.
var pointTitles = map[string]string{
	sdk.KindPreEnqueue: "PreEnqueue", sdk.KindQueueSort: "QueueSort", sdk.KindPreFilter: "PreFilter", sdk.KindPredicate: "Filter",
	sdk.KindPostFilter: "PostFilter", sdk.KindPreScore: "PreScore", sdk.KindPriority: "Score", sdk.KindReserve: "Reserve",
	sdk.KindPermit: "Permit", sdk.KindPreBind: "PreBind", sdk.KindBind: "Bind", sdk.KindPostBind: "PostBind",
}

var descs = struct{ calls, duration, restarts, state, circuit, memory, dropped, failures *prometheus.Desc }{
	calls:    metricDesc("calls_total", "Calls of a plugin by result: success or error.", append(pluginLabels, "result")...),
	duration: metricDesc("call_duration_seconds", "How long calls of a plugin took.", pluginLabels...),
	restarts: metricDesc("restarts_total", "How often a plugin, or the bundle that it is in, was started again.", pluginLabels...),
	state:    metricDesc("state", "1 for the state that a plugin is in.", append(pluginLabels, "transport", "state")...),
	circuit:  metricDesc("circuit_state", "1 for the state of a plugin's circuit: Closed, Open (it is not asked) or HalfOpen.", append(pluginLabels, "state")...),
	memory:   metricDesc("memory_bytes", "Memory of a bundle: of its module, or of its process with its children.", "bundle", "transport"),
	dropped:  metricDesc("log_lines_dropped_total", "Lines that a bundle wrote beyond what the log takes.", "bundle"),
	failures: metricDesc("metrics_failures_total", "How often a bundle's own metrics could not be had or were refused.", "bundle"),
}

// Describe implements prometheus.Collector.
func (collector) Describe(out chan<- *prometheus.Desc) {
	d := descs
	for _, x := range []*prometheus.Desc{d.calls, d.duration, d.restarts, d.state, d.circuit, d.memory, d.dropped, d.failures, execution} {
		out <- x
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	emit := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	p := c.host.present()
	for _, u := range p.units {
		bundle := u.bundle.Manifest.Name
		for i := range u.bundle.Manifest.Plugins {
			e := &u.bundle.Manifest.Plugins[i]
			s, st := u.stats[e.Name], p.status(u, e)
			labels := []string{e.Name, bundle, e.Kind}
			with := func(more ...string) []string { return append(labels[:3:3], more...) }
			emit(descs.state, prometheus.GaugeValue, 1, with(u.transport, string(st.State))...)
			emit(descs.restarts, prometheus.CounterValue, float64(st.Restarts), labels...)
			if st.Circuit != "" {
				emit(descs.circuit, prometheus.GaugeValue, 1, with(string(st.Circuit))...)
			}
			s.settle()
			failures := s.failures.Load() // before the calls, of which they are
			calls := s.calls.Load()
			if calls == 0 && !hostCalls(e.Kind) {
				continue
			}
			emit(descs.calls, prometheus.CounterValue, float64(calls-failures), with("success")...)
			emit(descs.calls, prometheus.CounterValue, float64(failures), with("error")...)
			count, sum, buckets := s.histogram()
			out <- prometheus.MustNewConstHistogram(descs.duration, count, sum.Seconds(), buckets, labels...)
			if title := pointTitles[e.Kind]; title != "" {
				s.executions(func(code string, count uint64, sum time.Duration, buckets map[float64]uint64) {
					out <- prometheus.MustNewConstHistogram(execution, count, sum.Seconds(), buckets, contractv1.UpstreamName(e.Name), title, code)
				})
			}
		}
		u.stateMu.Lock()
		memory := u.memory
		u.stateMu.Unlock()
		if memory > 0 {
			emit(descs.memory, prometheus.GaugeValue, float64(memory), bundle, u.transport)
		}
		emit(descs.dropped, prometheus.CounterValue, float64(u.budget.Lost()), bundle)
	}
	for bundle, n := range c.host.exposer.failed() {
		emit(descs.failures, prometheus.CounterValue, float64(n), bundle)
	}
}

// hostCalls reports whether the host calls plugins of a kind itself.
func hostCalls(kind string) bool { return sdk.SchedulingKind(kind) || kind == sdk.KindAdmission }

// Edges of the histogram, as powers of two in nanoseconds: 1 µs to 34 s.
var histogramEdges = []int{10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 35}

// histogram is the times of all calls there were, cumulated by upper edge in seconds.
func (s *stats) histogram() (count uint64, sum time.Duration, buckets map[float64]uint64) {
	count, buckets = cumulated(&s.buckets)
	return count, time.Duration(s.nanoseconds.Load()), buckets
}

func cumulated(counts *[64 * 4]atomic.Uint64) (count uint64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(histogramEdges))
	next := 0
	for i := range counts {
		for next < len(histogramEdges) && i == histogramEdges[next]*4 {
			buckets[edge(next)] = count
			next++
		}
		count += counts[i].Load()
	}
	return count, buckets
}

// executions gives the times of all calls by the code that they ended with.
func (s *stats) executions(emit func(code string, count uint64, sum time.Duration, buckets map[float64]uint64)) {
	type times struct {
		count   uint64
		sum     time.Duration
		buckets map[float64]uint64
	}
	var others [len(endings)]times // before the whole, of which they are
	for k := range endings {
		if o := s.others[k].Load(); o != nil {
			others[k].sum = time.Duration(o.nanoseconds.Load())
			others[k].count, others[k].buckets = cumulated(&o.buckets)
		}
	}
	count, sum, buckets := s.histogram()
	for k, o := range others {
		if o.count == 0 {
			continue
		}
		emit(contractv1.CodeNames[endings[k]], o.count, o.sum, o.buckets)
		count -= min(o.count, count)
		sum -= min(o.sum, sum)
		for edge, n := range o.buckets {
			buckets[edge] -= min(n, buckets[edge])
		}
	}
	if count > 0 {
		emit(contractv1.CodeNames[contractv1.Code_SUCCESS], count, sum, buckets)
	}
}

func edge(i int) float64 { return (time.Duration(1) << histogramEdges[i]).Seconds() }

// failed is how often metrics of bundles could not be had.
func (x *exposer) failed() map[string]uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.failures)
}
