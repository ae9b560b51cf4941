package main

import (
	"bytes"
	"fmt"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/metrics-server/pkg/storage"
)

// Metrics of an agent that count.
const (
	nodeCPU         = "node_cpu_usage_seconds_total"
	nodeMemory      = "node_memory_working_set_bytes"
	containerCPU    = "container_cpu_usage_seconds_total"
	containerMemory = "container_memory_working_set_bytes"
	containerStart  = "container_start_time_seconds"
)

// decode reads what the agent of a node answers to /metrics/resource. A node, or a pod,
// of which a part is missing has no measurement, as metrics-server has it. Values without
// a time are of at.
func decode(text []byte, at time.Time, node string) (*storage.MetricsBatch, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("metrics of node %s: %w", node, err)
	}
	batch := &storage.MetricsBatch{Nodes: map[string]storage.MetricsPoint{}, Pods: map[types.NamespacedName]storage.PodMetricsPoint{}}
	var whole storage.MetricsPoint
	for _, m := range families[nodeCPU].GetMetric() {
		whole.CumulativeCPUUsed, whole.Timestamp = unsigned(value(m)*1e9), taken(m, at)
	}
	for _, m := range families[nodeMemory].GetMetric() {
		whole.MemoryUsage = unsigned(value(m))
	}
	if whole.CumulativeCPUUsed != 0 && whole.MemoryUsage != 0 {
		batch.Nodes[node] = whole
	}
	// Measurements by pod and container. Their time is that of the CPU, of which a rate is
	// made.
	pods := map[types.NamespacedName]map[string]*storage.MetricsPoint{}
	each := func(name string, set func(*storage.MetricsPoint, *dto.Metric)) {
		for _, m := range families[name].GetMetric() {
			pod, container := of(m)
			if pods[pod] == nil {
				pods[pod] = map[string]*storage.MetricsPoint{}
			}
			if pods[pod][container] == nil {
				pods[pod][container] = &storage.MetricsPoint{}
			}
			set(pods[pod][container], m)
		}
	}
	each(containerCPU, func(p *storage.MetricsPoint, m *dto.Metric) {
		p.CumulativeCPUUsed, p.Timestamp = unsigned(value(m)*1e9), taken(m, at)
	})
	each(containerMemory, func(p *storage.MetricsPoint, m *dto.Metric) { p.MemoryUsage = unsigned(value(m)) })
	each(containerStart, func(p *storage.MetricsPoint, m *dto.Metric) { p.StartTime = instant(value(m)) })
	for pod, containers := range pods {
		if points := complete(containers); points != nil {
			batch.Pods[pod] = storage.PodMetricsPoint{Containers: points}
		}
	}
	return batch, nil
}

// complete returns the measurements of a pod, or nil where one of them lacks a part.
func complete(containers map[string]*storage.MetricsPoint) map[string]storage.MetricsPoint {
	points := make(map[string]storage.MetricsPoint, len(containers))
	for name, p := range containers {
		if p.CumulativeCPUUsed == 0 || p.MemoryUsage == 0 {
			return nil
		}
		points[name] = *p
	}
	return points
}

// of reads whose a measurement is.
func of(m *dto.Metric) (pod types.NamespacedName, container string) {
	for _, l := range m.GetLabel() {
		switch l.GetName() {
		case "namespace":
			pod.Namespace = l.GetValue()
		case "pod":
			pod.Name = l.GetValue()
		case "container":
			container = l.GetValue()
		}
	}
	return pod, container
}

// value is a metric's, of whatever type it says that it is.
func value(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	}
	return m.GetUntyped().GetValue()
}

// unsigned is the nearest whole number that a quantity holds; zero, which counts as
// missing, for what is no number.
func unsigned(f float64) uint64 {
	switch {
	case math.IsNaN(f) || f <= 0:
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	}
	return uint64(f)
}

// taken is when a value was measured.
func taken(m *dto.Metric, otherwise time.Time) time.Time {
	if m.TimestampMs == nil {
		return otherwise
	}
	return time.UnixMilli(m.GetTimestampMs())
}

// instant is a time in seconds; that of Unix' beginning for what is no time.
func instant(seconds float64) time.Time {
	if math.IsNaN(seconds) || seconds < 0 || seconds > math.MaxInt32*2 {
		return time.Unix(0, 0)
	}
	return time.UnixMicro(int64(seconds * 1e6))
}
