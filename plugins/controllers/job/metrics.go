package job

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"pintle.dev/pintle/sdk/metrics"
)

// The metrics of kube-controller-manager's Job controller, under its names.
var (
	syncSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: "job_controller", Name: "job_sync_duration_seconds", Help: "How long a sync of a Job takes.",
		Buckets: prometheus.ExponentialBuckets(0.004, 2, 15),
	}, []string{"completion_mode", "result", "action"})
	syncsTotal        = counter("job_syncs_total", "Syncs of Jobs.", "completion_mode", "result", "action")
	jobsFinished      = counter("jobs_finished_total", "Jobs that ended.", "completion_mode", "result", "reason")
	jobsElsewhere     = counter("jobs_by_external_controller_total", "Jobs that another controller manages.", "controller_name")
	podsFinished      = counter("job_pods_finished_total", "Pods that ended and are counted.", "completion_mode", "result")
	policyActions     = counter("pod_failures_handled_by_failure_policy_total", "Failed pods that a rule of a pod failure policy matched.", "action")
	terminatedTracked = counter("terminated_pods_tracking_finalizer_total", "Ended pods that got the tracking finalizer (add) or lost it (delete).", "event")
	indexesFinished   = counter("job_finished_indexes_total", "Indexes that ended.", "status", "backoffLimit")
	podsCreated       = counter("job_pods_creation_total", "Pods that were made, by why.", "reason", "status")
	staleSkips        = counter("stale_sync_skips_total", "Syncs that waited for a cache to show what was written.", "group", "resource")
	registerMetrics   sync.Once
	elsewhere         = &bounded{names: map[string]struct{}{}}
)

const (
	succeededLabel = "succeeded"
	failedLabel    = "failed"
)

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "job_controller", Name: name, Help: help}, labels)
}

func register() {
	registerMetrics.Do(func() {
		metrics.Register(syncSeconds, syncsTotal, jobsFinished, jobsElsewhere, podsFinished, policyActions, terminatedTracked, indexesFinished, podsCreated, staleSkips)
	})
}

// maxNames bounds the values of a label that users choose.
const maxNames = 100

// bounded lets the first names pass and calls the others "other", since anyone
// who may create Jobs may name any number of controllers.
type bounded struct {
	mu    sync.Mutex
	names map[string]struct{}
}

func (b *bounded) name(s string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.names[s]; !known {
		if len(b.names) >= maxNames {
			return "other"
		}
		b.names[s] = struct{}{}
	}
	return s
}
