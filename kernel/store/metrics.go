package store

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// meters are what the store counts while it works.
type meters struct {
	commit, groupWrite, groupSize prometheus.Histogram
	compactions, collections      prometheus.Counter
	refusals, conflicts           prometheus.Counter
}

func newMeters() meters {
	// 50 µs to 26 s: a sync takes some hundred microseconds on flash and some ten milliseconds on a disk.
	latency := prometheus.ExponentialBuckets(50e-6, 2, 20)
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pintle_store_" + name, Help: help, Buckets: buckets})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "pintle_store_" + name, Help: help})
	}
	return meters{
		commit:      histogram("commit_duration_seconds", "Time from a write's arrival at the store to its answer, the wait for its group included.", latency),
		groupWrite:  histogram("group_write_duration_seconds", "Time to write one group of commits and sync it to disk.", latency),
		groupSize:   histogram("group_size", "Commits that shared one sync.", prometheus.ExponentialBuckets(1, 2, 10)),
		compactions: counter("compactions_total", "Times that history was dropped."),
		collections: counter("value_log_collections_total", "Files of the value log that were rewritten to free space."),
		refusals:    counter("disk_refusals_total", "Groups of commits refused or failed because of the disk."),
		conflicts:   counter("conflicts_total", "Commits refused because the key had another revision."),
	}
}

func (m *meters) wrote(begin time.Time, commits int, err error) {
	if err != nil {
		m.refusals.Inc()
		return
	}
	m.groupWrite.Observe(time.Since(begin).Seconds())
	m.groupSize.Observe(float64(commits))
}

// Collector gives the store's metrics, pintle_store_*. Those of the disk are asked for when they are collected.
func (s *Store) Collector() prometheus.Collector { return collector{s} }

type collector struct{ s *Store }

var gauges = struct{ revision, compacted, keys, history, queue, free, size, tables *prometheus.Desc }{
	revision:  prometheus.NewDesc("pintle_store_revision", "Latest committed revision.", nil, nil),
	compacted: prometheus.NewDesc("pintle_store_compacted_revision", "Revision below which no history is kept.", nil, nil),
	keys:      prometheus.NewDesc("pintle_store_keys", "Keys that have a value.", nil, nil),
	history:   prometheus.NewDesc("pintle_store_history_revisions", "Revisions that can be read and replayed.", nil, nil),
	queue:     prometheus.NewDesc("pintle_store_queue_depth", "Writes that wait for a group.", nil, nil),
	free:      prometheus.NewDesc("pintle_store_free_bytes", "Free bytes of the file system that holds the store.", nil, nil),
	size:      prometheus.NewDesc("pintle_store_size_bytes", "Bytes of the store on disk by kind of file: table, memtable (the log of what is not in tables yet), valuelog, other.", []string{"kind"}, nil),
	tables:    prometheus.NewDesc("pintle_store_tables", "Tables on disk by level.", []string{"level"}, nil),
}

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.counted() {
		m.Describe(out)
	}
	g := &gauges
	for _, d := range []*prometheus.Desc{g.revision, g.compacted, g.keys, g.history, g.queue, g.free, g.size, g.tables} {
		out <- d
	}
}

func (c collector) counted() []prometheus.Collector {
	m := &c.s.meters
	return []prometheus.Collector{m.commit, m.groupWrite, m.groupSize, m.compactions, m.collections, m.refusals, m.conflicts}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c.counted() {
		m.Collect(out)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	st, err := c.s.Stats()
	if err != nil {
		out <- prometheus.NewInvalidMetric(gauges.size, err)
		return
	}
	gauge(gauges.revision, float64(st.Revision))
	gauge(gauges.compacted, float64(st.Compacted))
	gauge(gauges.keys, float64(st.Keys))
	gauge(gauges.history, float64(st.Revision-st.Compacted))
	gauge(gauges.queue, float64(st.Queue))
	gauge(gauges.free, float64(st.Disk.Free))
	gauge(gauges.size, float64(st.Disk.Tables), "table")
	gauge(gauges.size, float64(st.Disk.Memtables), "memtable")
	gauge(gauges.size, float64(st.Disk.ValueLog), "valuelog")
	gauge(gauges.size, float64(st.Disk.Other), "other")
	for level, n := range st.Levels {
		gauge(gauges.tables, float64(n), levelName(level))
	}
}
