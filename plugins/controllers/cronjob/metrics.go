package cronjob

import (
	"github.com/prometheus/client_golang/prometheus"

	"pintle.dev/pintle/sdk/metrics"
)

// creationSkew has upstream's name and buckets.
var creationSkew = prometheus.NewHistogram(prometheus.HistogramOpts{
	Subsystem: "cronjob_controller", Name: "job_creation_skew_duration_seconds",
	Help:    "Time from the start that a schedule names to the creation of its Job.",
	Buckets: prometheus.ExponentialBuckets(1, 2, 10),
})

func init() { metrics.Register(creationSkew) }
