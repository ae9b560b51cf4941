package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// requestsTotal is the metric of both API servers: finished requests.
const requestsTotal = "apiserver_request_total"

// requests are how many an API server has answered, by verb and resource. Other work on
// the machine does not change what a piece of work needs of them.
type requests map[string]float64

// metrics are the API server's, by name.
func (s *side) metrics() (map[string]*dto.MetricFamily, error) {
	raw, err := fetch(s.cfg, "/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("metrics of the API server: %w", err)
	}
	return families, nil
}

// labelsOf are a metric's labels by name.
func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.Label {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

func (s *side) requested() (requests, error) {
	families, err := s.metrics()
	if err != nil {
		return nil, err
	}
	if families[requestsTotal] == nil {
		return nil, fmt.Errorf("the API server has no metric %s", requestsTotal)
	}
	out := requests{}
	for _, m := range families[requestsTotal].Metric {
		labels := labelsOf(m)
		name := labels["verb"] + " " + labels["resource"]
		if labels["subresource"] != "" {
			name += "/" + labels["subresource"]
		}
		if code := labels["code"]; !strings.HasPrefix(code, "2") {
			name += " (" + code + ")"
		}
		out[name] += m.GetCounter().GetValue()
	}
	return out, nil
}

// since lists what was asked between two looks by each of n, the most frequent first. What
// is asked for less than each hundredth is left out.
func (r requests) since(now requests, n int) string {
	asked := requests{}
	for name, count := range now {
		if each := (count - r[name]) / float64(n); each >= 0.01 {
			asked[name] = each
		}
	}
	names := slices.SortedFunc(maps.Keys(asked), func(a, b string) int { return cmp.Or(cmp.Compare(asked[b], asked[a]), cmp.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%.2f %s", asked[name], name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}
