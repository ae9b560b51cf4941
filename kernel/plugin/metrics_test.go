package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"pintle.dev/pintle/kernel/plugin/manifest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func scrape(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Errorf("gather: %v", err)
	}
	var out bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestMetrics: what the host counts of plugins, and what they count themselves,
// is among the kernel's metrics under their names.
func TestMetrics(t *testing.T) {
	cfg := testConfig(t, manifest.TransportProcess, "FitsCPU", "NotRed")
	cfg.Bundles = append(cfg.Bundles, BundleConfig{Name: "plain", Transport: manifest.TransportProcess})
	h := runHost(t, cfg, nil)
	p := h.Source("s").Policy()
	if err := p.Apply(t.Context(), replica(6, 1)); err != nil {
		t.Fatal(err)
	}
	waitSound(t, p, 0)
	before := objectOf(h, "FitsCPU").Status.Calls
	if err := p.Filter(t.Context(), 0, 7, indexes(6), make([]uint32, 6)); err != nil {
		t.Fatal(err)
	}
	kernel := prometheus.NewRegistry()
	for _, name := range []string{"process_threads_of_mine", "apiserver_of_the_kernel"} {
		kernel.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "The kernel's."}))
	}
	kernel.MustRegister(h.Collector())
	all := h.Metrics(kernel)
	text := scrape(t, all)
	for _, want := range []string{
		fmt.Sprintf(`pintle_plugin_calls_total{bundle="guest",kind="predicate",plugin="FitsCPU",result="success"} %d`, before+1),
		`pintle_plugin_calls_total{bundle="guest",kind="predicate",plugin="FitsCPU",result="error"} 0`,
		fmt.Sprintf(`pintle_plugin_call_duration_seconds_count{bundle="guest",kind="predicate",plugin="FitsCPU"} %d`, before+1),
		fmt.Sprintf(`pintle_plugin_call_duration_seconds_bucket{bundle="guest",kind="predicate",plugin="FitsCPU",le="+Inf"} %d`, before+1),
		`pintle_plugin_restarts_total{bundle="plain",kind="predicate",plugin="NotRed"} 0`,
		`pintle_plugin_state{bundle="plain",kind="predicate",plugin="NotRed",state="Ready",transport="process"} 1`,
		`pintle_plugin_circuit_state{bundle="plain",kind="predicate",plugin="NotRed",state="Closed"} 1`,
		`pintle_plugin_log_lines_dropped_total{bundle="guest"} 0`,
		`guest_asked_total{exported_plugin="FitsCPU",plugin="guest"} 7`,
		"process_threads_of_mine 0\n",
		`process_threads_of_mine{plugin="guest"} 0`,
		"apiserver_of_the_kernel 0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(text, `apiserver_of_the_kernel{plugin`) {
		t.Error("a plugin has a metric of the kernel's")
	}
	if strings.Contains(text, "metrics_failures_total{") {
		t.Error("a bundle without metrics counts as one that fails")
	}
	if t.Failed() {
		t.Log(text)
	}
	if again := scrape(t, all); !strings.Contains(again, `guest_asked_total{exported_plugin="FitsCPU",plugin="guest"} 7`) {
		t.Errorf("asked again at once:\n%s", again)
	}
}

// TestStatsHistogram: times fade from p99, also those of the version before, and
// never from the histogram.
func TestStatsHistogram(t *testing.T) {
	old, s := &stats{}, &stats{}
	for range 200_000 {
		old.record(time.Second, nil)
	}
	old.record(3*time.Microsecond, errors.New("no"))
	old.p99()
	old.p99()
	s.succeed(old)
	if p99 := s.p99(); p99 != 0 {
		t.Errorf("p99 of a version that was never asked is %s", p99)
	}
	s.record(0, errors.New("nobody knows how long that took"))
	if p99 := s.p99(); p99 != 0 {
		t.Errorf("p99 after a failure whose time is not known is %s", p99)
	}
	s = &stats{}
	s.succeed(old)
	s.record(10*time.Microsecond, nil)
	if p99 := s.p99(); p99 < 8*time.Microsecond || p99 > 16*time.Microsecond {
		t.Errorf("p99 of one call of 10 µs is %s", p99)
	}
	count, sum, buckets := s.histogram()
	if count != 200_002 || sum != 200_000*time.Second+13*time.Microsecond {
		t.Errorf("%d calls took %s", count, sum)
	}
	if buckets[edge(0)] != 0 || buckets[edge(1)] != 1 || buckets[edge(2)] != 2 || buckets[edge(9)] != 2 || buckets[edge(10)] != 200_002 || len(buckets) != len(histogramEdges) {
		t.Errorf("buckets %v", buckets)
	}
	if s.calls.Load() != 200_002 || s.failures.Load() != 1 {
		t.Errorf("%d calls, %d failures", s.calls.Load(), s.failures.Load())
	}
}

// Calls are told by the code that they ended with, as the scheduling framework names
// it; what ended with none of the others was a success.
func TestExecutionsByCode(t *testing.T) {
	old, s := &stats{}, &stats{}
	old.record(time.Millisecond, nil)
	old.ended(contractv1.Code_WAIT, time.Millisecond)
	s.succeed(old)
	for _, c := range []struct {
		code contractv1.Code
		err  error
	}{
		{contractv1.Code_SUCCESS, nil}, {contractv1.Code_SUCCESS, nil}, {contractv1.Code_SKIP, nil}, {contractv1.Code_SUCCESS, errors.New("no")},
		{contractv1.Code_UNSCHEDULABLE, nil}, {filtered([]uint32{3, 2}, func(v uint32) bool { return v == 3 }), nil},
		{filtered([]uint32{2, 3}, func(v uint32) bool { return v == 3 }), nil}, {filtered([]uint32{3, 0}, func(uint32) bool { return true }), nil},
		{filtered(nil, func(uint32) bool { return true }), nil},
	} {
		s.record(time.Second, c.err)
		s.ended(c.code, time.Second)
	}
	got := map[string]uint64{}
	s.executions(func(code string, count uint64, sum time.Duration, buckets map[float64]uint64) {
		got[code] = count
		if code != "Wait" && (sum != time.Duration(count)*time.Second || buckets[edge(9)] != 0 || buckets[edge(10)] != count) {
			t.Errorf("%s: %d calls took %s, %v", code, count, sum, buckets)
		}
	})
	want := map[string]uint64{"Success": 4, "Error": 1, "Skip": 1, "Unschedulable": 2, "UnschedulableAndUnresolvable": 1, "Wait": 1}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
