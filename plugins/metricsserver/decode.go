package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

// Bounds of what a node may answer.
const (
	// piece is how many bytes of an answer are decoded at a time; no line is longer.
	piece = 16 << 10
	// longestAnswer is in bytes.
	longestAnswer = 4 << 20
	// mostLines has some ten for a container.
	mostLines      = 40_000
	mostContainers = 4_000
	// longestName is that of Kubernetes' objects, in bytes.
	longestName = 253
)

// decoding has a place for each piece that may be decoded at a time: a decoded piece takes
// up to a hundred times its text. No place is held while a node is waited for.
var decoding = make(chan struct{}, 16)

// decode reads what the agent of a node answers to /metrics/resource. A node, or a pod,
// of which a part is missing has no measurement, as metrics-server has it. Values without
// a time are of at.
func decode(answer io.Reader, at time.Time, node string) (*storage.MetricsBatch, error) {
	m := measured{at: at, pods: map[types.NamespacedName]map[string]*storage.MetricsPoint{}}
	if err := inPieces(answer, m.add); err != nil {
		return nil, fmt.Errorf("metrics of node %s: %w", node, err)
	}
	batch := &storage.MetricsBatch{Nodes: map[string]storage.MetricsPoint{}, Pods: map[types.NamespacedName]storage.PodMetricsPoint{}}
	if m.node.CumulativeCPUUsed != 0 && m.node.MemoryUsage != 0 {
		batch.Nodes[node] = m.node
	}
	for pod, containers := range m.pods {
		if points := complete(containers); points != nil {
			batch.Pods[pod] = storage.PodMetricsPoint{Containers: points}
		}
	}
	return batch, nil
}

// inPieces reads an answer up to its bounds and hands it over in pieces of whole lines.
// The last line may lack its end.
func inPieces(answer io.Reader, take func(lines []byte) error) error {
	buffer := make([]byte, piece)
	for held, read, lines := 0, 0, 0; ; {
		n, err := answer.Read(buffer[held:])
		held, read = held+n, read+n
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		if held < len(buffer) && !ended {
			continue
		}
		whole := held
		if !ended {
			whole = bytes.LastIndexByte(buffer, '\n') + 1
		}
		lines += bytes.Count(buffer[:whole], []byte{'\n'})
		switch {
		case whole == 0 && !ended:
			return fmt.Errorf("a line is longer than %d bytes", piece)
		case read > longestAnswer:
			return fmt.Errorf("the answer is longer than %d bytes", longestAnswer)
		case lines > mostLines:
			return fmt.Errorf("the answer has more than %d lines", mostLines)
		}
		if err := take(buffer[:whole]); err != nil || ended {
			return err
		}
		held = copy(buffer, buffer[whole:held])
	}
}

// measured collects the measurements of a node, and those of its pods by container.
type measured struct {
	at         time.Time
	node       storage.MetricsPoint
	pods       map[types.NamespacedName]map[string]*storage.MetricsPoint
	containers int
}

// add adds what some lines report. The time of a measurement is that of the CPU, of which
// a rate is made.
func (m *measured) add(lines []byte) error {
	decoding <- struct{}{}
	defer func() { <-decoding }()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(lines))
	if err != nil {
		return err
	}
	for _, d := range families[nodeCPU].GetMetric() {
		m.node.CumulativeCPUUsed, m.node.Timestamp = unsigned(value(d)*1e9), taken(d, m.at)
	}
	for _, d := range families[nodeMemory].GetMetric() {
		m.node.MemoryUsage = unsigned(value(d))
	}
	for name, set := range map[string]func(*storage.MetricsPoint, *dto.Metric){
		containerCPU: func(p *storage.MetricsPoint, d *dto.Metric) {
			p.CumulativeCPUUsed, p.Timestamp = unsigned(value(d)*1e9), taken(d, m.at)
		},
		containerMemory: func(p *storage.MetricsPoint, d *dto.Metric) { p.MemoryUsage = unsigned(value(d)) },
		containerStart:  func(p *storage.MetricsPoint, d *dto.Metric) { p.StartTime = instant(value(d)) },
	} {
		for _, d := range families[name].GetMetric() {
			point, err := m.point(of(d))
			if err != nil {
				return err
			}
			set(point, d)
		}
	}
	return nil
}

// point returns what is measured of a container so far.
func (m *measured) point(pod types.NamespacedName, container string) (*storage.MetricsPoint, error) {
	if p := m.pods[pod][container]; p != nil {
		return p, nil
	}
	if max(len(pod.Namespace), len(pod.Name), len(container)) > longestName {
		return nil, fmt.Errorf("a name is longer than %d bytes", longestName)
	}
	if m.containers++; m.containers > mostContainers {
		return nil, fmt.Errorf("the answer has more than %d containers", mostContainers)
	}
	if m.pods[pod] == nil {
		m.pods[pod] = map[string]*storage.MetricsPoint{}
	}
	p := &storage.MetricsPoint{}
	m.pods[pod][container] = p
	return p, nil
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
