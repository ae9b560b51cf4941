package bus

import "github.com/prometheus/client_golang/prometheus"

// Stats is the state of the bus as of now.
type Stats struct {
	// Revision is the last one published.
	Revision uint64 `json:"revision"`
	// Subscribers are open; Behind of them wait for history because they were slow.
	Subscribers int `json:"subscribers"`
	Behind      int `json:"behind"`
	// Queued is the number of events that wait to be taken, MaxQueued that of the subscriber with the most.
	Queued    int `json:"queued"`
	MaxQueued int `json:"maxQueued"`
	// Lag is the number of revisions between the last published one and the last that the slowest subscriber took.
	Lag uint64 `json:"lag"`
	// Drops counts the times that a subscriber's buffer was full and it fell back to the history, Replays the reads of
	// the history since.
	Drops   uint64 `json:"drops"`
	Replays uint64 `json:"replays"`
}

// Stats looks at every subscription.
func (b *Bus) Stats() Stats {
	st := Stats{Revision: b.Revision(), Drops: b.drops.Load(), Replays: b.replays.Load()}
	b.each(func(s *Subscription) {
		s.mu.Lock()
		defer s.mu.Unlock()
		st.Subscribers++
		if s.behind {
			st.Behind++
		}
		st.Queued += len(s.queue)
		st.MaxQueued = max(st.MaxQueued, len(s.queue))
		// A subscriber of whom nothing waits has seen everything, whatever the last event for it was.
		waits := st.Revision
		switch {
		case len(s.queue) > 0:
			waits = s.queue[0].Revision - 1
		case s.behind:
			waits = s.seen
		}
		if waits < st.Revision {
			st.Lag = max(st.Lag, st.Revision-waits)
		}
	})
	return st
}

// Collector gives the bus's metrics, pintle_bus_*.
func (b *Bus) Collector() prometheus.Collector { return collector{b} }

type collector struct{ b *Bus }

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("pintle_bus_"+name, help, nil, nil)
}

var descs = struct{ subscribers, behind, queued, maxQueued, lag, drops, dropsOf, replays *prometheus.Desc }{
	subscribers: desc("subscribers", "Open subscriptions, which watches are."),
	behind:      desc("subscribers_behind", "Subscriptions that wait for events from the history."),
	queued:      desc("queue_depth", "Events that wait to be taken, of all subscriptions together."),
	maxQueued:   desc("queue_depth_max", "Events that wait to be taken of the subscription with the most."),
	lag:         desc("lag_revisions", "Revisions between the last published one and the last that the slowest subscription took."),
	drops:       desc("drops_total", "Times that a subscription's buffer was full and it fell back to the history."),
	dropsOf: prometheus.NewDesc("pintle_bus_drops_by_resource_total",
		"Times that a subscription of the resource was dropped, or was told to start anew. The log names it.", []string{"resource"}, nil),
	replays: desc("replays_total", "Reads of the history for subscriptions."),
}

func (c collector) Describe(out chan<- *prometheus.Desc) {
	d := &descs
	for _, x := range []*prometheus.Desc{d.subscribers, d.behind, d.queued, d.maxQueued, d.lag, d.drops, d.dropsOf, d.replays} {
		out <- x
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	st := c.b.Stats()
	gauge := func(d *prometheus.Desc, v float64) { out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	gauge(descs.subscribers, float64(st.Subscribers))
	gauge(descs.behind, float64(st.Behind))
	gauge(descs.queued, float64(st.Queued))
	gauge(descs.maxQueued, float64(st.MaxQueued))
	gauge(descs.lag, float64(st.Lag))
	out <- prometheus.MustNewConstMetric(descs.drops, prometheus.CounterValue, float64(st.Drops))
	for kind, n := range c.b.dropped.byKind() {
		out <- prometheus.MustNewConstMetric(descs.dropsOf, prometheus.CounterValue, float64(n), kind)
	}
	out <- prometheus.MustNewConstMetric(descs.replays, prometheus.CounterValue, float64(st.Replays))
}
