package horizontalpodautoscaler

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pintle.dev/pintle/sdk/metrics"
)

// The metrics of kube-controller-manager's autoscaler, under its names.
var (
	reconciliations       = counter("reconciliations_total", "Looks at autoscalers, by what came of them.", "action", "error")
	reconciliationSeconds = seconds("reconciliation_duration_seconds", "How long a look at an autoscaler takes.", "action", "error")
	computations          = counter("metric_computation_total", "Sizes that were computed for a metric, by its type.", "action", "error", "metric_type")
	computationSeconds    = seconds("metric_computation_duration_seconds", "How long the size for a metric takes.", "action", "error", "metric_type")
	autoscalers           = prometheus.NewGauge(prometheus.GaugeOpts{Subsystem: subsystem, Name: "num_horizontal_pod_autoscalers", Help: "Number of autoscalers."})
	desiredReplicas       = prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: "desired_replicas", Help: "Number of replicas of the last decision, by autoscaler."}, []string{"namespace", "hpa_name"})
	registerMetrics       sync.Once
)

const (
	subsystem = "horizontal_pod_autoscaler_controller"

	none = "none"
)

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
}

func seconds(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}, labels)
}

func register() {
	registerMetrics.Do(func() {
		metrics.Register(reconciliations, reconciliationSeconds, computations, computationSeconds, autoscalers, desiredReplicas)
	})
}

// action names what a size does to the present one.
func action(from, to int32) string {
	switch {
	case to > from:
		return "scale_up"
	case to < from:
		return "scale_down"
	}
	return none
}

// fault names whose an error is.
func fault(err error) string {
	switch {
	case err == nil:
		return none
	case errors.As(err, new(specError)):
		return "spec"
	}
	return "internal"
}

func observeReconciliation(action string, err error, began time.Time) {
	reconciliations.WithLabelValues(action, fault(err)).Inc()
	reconciliationSeconds.WithLabelValues(action, fault(err)).Observe(time.Since(began).Seconds())
}

func observeComputation(action, kind string, err error, began time.Time) {
	computations.WithLabelValues(action, fault(err), kind).Inc()
	computationSeconds.WithLabelValues(action, fault(err), kind).Observe(time.Since(began).Seconds())
}
