package proxy

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"pintle.dev/pintle/sdk/metrics"
)

var (
	requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "pintle", Subsystem: "ingress", Name: "requests_total",
		Help: "Requests, by namespace of the Ingress or route and by class of the status (2xx). The namespace is empty if no rule matched.",
	}, []string{"namespace", "code"})
	retries = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "pintle", Subsystem: "ingress", Name: "connection_failures_total",
		Help: "Failed connections to endpoints.",
	})
	refusedConnections = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "pintle", Subsystem: "ingress", Name: "refused_connections_total",
		Help: "Client connections closed at once because of the limit.",
	})
)

// RegisterMetrics tells them from now on; once.
var RegisterMetrics = sync.OnceFunc(func() { metrics.Register(requests, retries, refusedConnections) })
