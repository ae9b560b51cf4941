package limits

import "github.com/prometheus/client_golang/prometheus"

// Collectors tell how much is held of what the limits are about.
func Collectors(b *Bodies, w *Watches, c *Connections) []prometheus.Collector {
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pintle_api_" + name, Help: help}, func() float64 { return float64(value()) })
	}
	return []prometheus.Collector{
		gauge("request_body_bytes", "Bytes of the bodies of requests that are being served.", b.held.inUse),
		gauge("open_watches", "Watches and streams that clients on the network have open.", w.open.inUse),
		gauge("open_connections", "Connections to the port of the API.", c.inUse),
	}
}

func (q *quota) inUse() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}

func (l *Connections) inUse() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.count)
}
