package plugin

import (
	"github.com/prometheus/client_golang/prometheus"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// collector gives the figures of all plugins.
type collector struct {
	host                                             *Host
	calls, failures, restarts, open, memory, dropped *prometheus.Desc
}

var _ prometheus.Collector = (*collector)(nil)

// Collector returns the figures of all loaded plugins for /metrics.
func (h *Host) Collector() prometheus.Collector {
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pintle_plugin_"+name, help, labels, nil)
	}
	return &collector{
		host:     h,
		calls:    of("calls_total", "Calls of a plugin.", "bundle", "plugin"),
		failures: of("failures_total", "Calls of a plugin that failed.", "bundle", "plugin"),
		restarts: of("restarts_total", "How often a plugin was started again.", "bundle", "plugin"),
		open:     of("circuit_open", "1 while a plugin is not asked because it failed or was slow.", "bundle", "plugin"),
		memory:   of("memory_bytes", "Memory of a bundle's module or process, rounded up to a quarter of an octave.", "bundle"),
		dropped:  of("log_lines_dropped_total", "Lines of a bundle that the log did not take.", "bundle"),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.calls, c.failures, c.restarts, c.open, c.memory, c.dropped} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, n, labels...)
	}
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	bundles := map[string]bool{}
	for _, p := range c.host.Plugins() {
		bundle, s := p.Spec.Bundle, p.Status
		count(c.calls, float64(s.Calls), bundle, p.Name)
		count(c.failures, float64(s.Failures), bundle, p.Name)
		count(c.restarts, float64(s.Restarts), bundle, p.Name)
		open := 0.0
		if s.Circuit == v1alpha1.PluginCircuitOpen {
			open = 1
		}
		gauge(c.open, open, bundle, p.Name)
		if !bundles[bundle] && s.Memory != nil {
			gauge(c.memory, float64(s.Memory.Value()), bundle)
		}
		bundles[bundle] = true
	}
	for bundle, lines := range c.host.dropped() {
		count(c.dropped, float64(lines), bundle)
	}
}

// dropped is how many lines of each bundle the log did not take.
func (h *Host) dropped() map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	lost := map[string]int64{}
	for _, u := range h.plan.units {
		lost[u.bundle.Manifest.Name] = u.budget.lost()
	}
	return lost
}
