package main

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	componentmetrics "k8s.io/component-base/metrics"
	"sigs.k8s.io/metrics-server/pkg/api"
	"sigs.k8s.io/metrics-server/pkg/storage"

	"pintle.dev/pintle/sdk/metrics"
)

// The metrics of metrics-server's scraper, under its names.
var (
	requestSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "metrics_server", Subsystem: "kubelet", Name: "request_duration_seconds", Help: "How long nodes take to answer.", Buckets: prometheus.DefBuckets,
	}, []string{"node"})
	requestTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "metrics_server", Subsystem: "kubelet", Name: "request_total", Help: "Requests to nodes, by whether they succeeded.",
	}, []string{"success"})
	registering sync.Once
)

// registerMetrics has the kernel's /metrics show those of this process, those of
// metrics-server's packages among them.
func registerMetrics() {
	registering.Do(func() {
		metrics.Register(requestSeconds, requestTotal)
		add := func(m componentmetrics.Registerable) error {
			m.Create(nil)
			metrics.Register(m)
			return nil
		}
		_ = api.RegisterAPIMetrics(add)         // add returns no error
		_ = storage.RegisterStorageMetrics(add) // nor here
	})
}

func observe(node string, err error, began time.Time) {
	success := "true"
	if err != nil {
		success = "false"
	}
	requestTotal.WithLabelValues(success).Inc()
	requestSeconds.WithLabelValues(node).Observe(time.Since(began).Seconds())
}
