package proxy

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"pintle.dev/pintle/sdk/metrics"
)

var (
	requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "pintle", Subsystem: "ingress", Name: "requests_total",
		Help: "Requests by the namespace of their Ingress or route and the class of their status (2xx); without one where no rule matched.",
	}, []string{"namespace", "code"})
	retries = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "pintle", Subsystem: "ingress", Name: "connection_failures_total",
		Help: "Connections to endpoints that did not come about.",
	})
	refusedConnections = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "pintle", Subsystem: "ingress", Name: "refused_connections_total",
		Help: "Connections of clients that were closed at once, since there were too many.",
	})
)

// RegisterMetrics tells them from now on; once.
var RegisterMetrics = sync.OnceFunc(func() { metrics.Register(requests, retries, refusedConnections) })
