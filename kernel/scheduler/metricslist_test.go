package scheduler

import (
	"maps"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// upstreamMetrics are all metrics that kube-scheduler 1.36's pkg/scheduler/metrics
// declares, with their labels; those that are not here say why.
var upstreamMetrics = map[string]struct {
	labels  []string
	missing string
}{
	"scheduler_schedule_attempts_total":                    {labels: []string{"profile", "result"}},
	"scheduler_event_handling_duration_seconds":            {labels: []string{"event"}},
	"scheduler_scheduling_attempt_duration_seconds":        {labels: []string{"profile", "result"}},
	"scheduler_scheduling_algorithm_duration_seconds":      {},
	"scheduler_preemption_victims":                         {},
	"scheduler_preemption_attempts_total":                  {},
	"scheduler_pending_pods":                               {labels: []string{"queue"}},
	"scheduler_inflight_events":                            {labels: []string{"event"}},
	"scheduler_goroutines":                                 {labels: []string{"operation"}},
	"scheduler_pod_scheduling_sli_duration_seconds":        {labels: []string{"attempts"}},
	"scheduler_pod_scheduling_attempts":                    {},
	"scheduler_pod_scheduled_after_flush_total":            {},
	"scheduler_framework_extension_point_duration_seconds": {labels: []string{"extension_point", "profile", "status"}},
	"scheduler_queueing_hint_execution_duration_seconds":   {labels: []string{"event", "hint", "plugin"}},
	"scheduler_queue_incoming_pods_total":                  {labels: []string{"event", "queue"}},
	"scheduler_permit_wait_duration_seconds":               {labels: []string{"result"}},
	"scheduler_cache_size":                                 {labels: []string{"type"}},
	"scheduler_unschedulable_pods":                         {labels: []string{"plugin", "profile"}},
	"scheduler_plugin_evaluation_total":                    {labels: []string{"extension_point", "plugin", "profile"}},
	"scheduler_preemption_goroutines_duration_seconds":     {labels: []string{"result"}},
	"scheduler_preemption_goroutines_execution_total":      {labels: []string{"result"}},

	"scheduler_plugin_execution_duration_seconds":              {missing: "the plugin host counts it (kernel/plugin/metrics.go)"},
	"scheduler_batch_attempts_total":                           {missing: "opportunistic batching: classes keep answers instead, and there is no hint to use or not"},
	"scheduler_batch_cache_flushed_total":                      {missing: "opportunistic batching"},
	"scheduler_get_node_hint_duration_seconds":                 {missing: "opportunistic batching"},
	"scheduler_store_schedule_results_duration_seconds":        {missing: "opportunistic batching"},
	"scheduler_async_api_call_execution_total":                 {missing: "gate SchedulerAsyncAPICalls is off in 1.36"},
	"scheduler_async_api_call_execution_duration_seconds":      {missing: "gate SchedulerAsyncAPICalls is off in 1.36"},
	"scheduler_pending_async_api_calls":                        {missing: "gate SchedulerAsyncAPICalls is off in 1.36"},
	"scheduler_resourceclaim_creates_total":                    {missing: "dynamic resources are refused"},
	"scheduler_dra_bindingconditions_allocations_total":        {missing: "dynamic resources are refused"},
	"scheduler_dra_bindingconditions_wait_duration_seconds":    {missing: "dynamic resources are refused"},
	"scheduler_podgroup_schedule_attempts_total":               {missing: "gate GenericWorkload is off in 1.36"},
	"scheduler_podgroup_scheduling_attempt_duration_seconds":   {missing: "gate GenericWorkload is off in 1.36"},
	"scheduler_podgroup_scheduling_algorithm_duration_seconds": {missing: "gate GenericWorkload is off in 1.36"},
}

// What is served is what upstream has under the same labels, and nothing else.
func TestMetricsAreUpstreams(t *testing.T) {
	m := NewMetrics()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m)
	fillVectors(m)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string][]string{}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		served[f.GetName()] = labels
	}
	for name, labels := range served {
		if want, known := upstreamMetrics[name]; !known || want.missing != "" || !slices.Equal(labels, want.labels) {
			t.Errorf("%s%v is not upstream's: %+v", name, labels, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(upstreamMetrics)) {
		if _, there := served[name]; !there && upstreamMetrics[name].missing == "" {
			t.Errorf("%s is not served", name)
		}
	}
}

// fillVectors gives each vector a child, or it is not seen.
func fillVectors(m *Metrics) {
	for _, v := range []*prometheus.CounterVec{m.attempts, m.evaluations, m.evictions, m.queue.incoming} {
		v.WithLabelValues(empty(v)...)
	}
	for _, v := range []*prometheus.GaugeVec{m.cache, m.goroutines, m.tracked, m.queue.refused} {
		v.WithLabelValues(empty(v)...)
	}
	for _, v := range []*prometheus.HistogramVec{m.attempt, m.points, m.permitWait, m.handling, m.hints, m.evicting, m.queue.sli} {
		v.WithLabelValues(empty(v)...).Observe(1)
	}
}

// empty are as many values as a vector has labels.
func empty(c prometheus.Collector) []string {
	for n := range 4 {
		values := make([]string, n)
		var err error
		switch v := c.(type) {
		case *prometheus.CounterVec:
			_, err = v.GetMetricWithLabelValues(values...)
		case *prometheus.GaugeVec:
			_, err = v.GetMetricWithLabelValues(values...)
		case *prometheus.HistogramVec:
			_, err = v.GetMetricWithLabelValues(values...)
		}
		if err == nil {
			return values
		}
	}
	return nil
}
