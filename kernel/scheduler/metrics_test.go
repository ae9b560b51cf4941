package scheduler

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
)

// sample is the value of a metric with the labels given; for histograms, the
// number of observations.
func sample(t *testing.T, m *Metrics, name string, labels map[string]string) float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(m); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			if !labelled(s, labels) {
				continue
			}
			return s.GetCounter().GetValue() + s.GetGauge().GetValue() + float64(s.GetHistogram().GetSampleCount())
		}
	}
	return 0
}

func labelled(s *dto.Metric, labels map[string]string) bool {
	for _, l := range s.GetLabel() {
		if want, asked := labels[l.GetName()]; asked && want != l.GetValue() {
			return false
		}
	}
	return len(s.GetLabel()) >= len(labels)
}

// Attempts, decisions, points and sizes are counted under kube-scheduler's names.
func TestMetrics(t *testing.T) {
	c := start(t, Config{}, func(c *cluster) { c.counts = NewMetrics() })
	c.addNodes(t, schedulertest.MakeNode("n", 1000, nil))
	refused := false
	c.mu.Lock()
	c.refuse = func(name string) error {
		if name == "third" && !refused {
			refused = true
			return errors.New("not now")
		}
		return nil
	}
	c.mu.Unlock()
	c.addPod(schedulertest.MakePod("first", 500))
	c.eventuallyBound(t, "first", "n")
	c.addPod(schedulertest.MakePod("second", 900))
	c.eventuallyTried(t, "second", 1)
	c.addPod(schedulertest.MakePod("third", 100))
	c.eventuallyBound(t, "third", "n")
	count := func(name string, labels ...string) float64 {
		m := map[string]string{}
		for _, l := range labels {
			k, v, _ := strings.Cut(l, "=")
			m[k] = v
		}
		return sample(t, c.counts, name, m)
	}
	profile := "profile=" + schedulertest.ProfileName
	eventually(t, "two scheduled", func() bool { return count("scheduler_schedule_attempts_total", "result=scheduled", profile) == 2 })
	for _, want := range []struct {
		name   string
		labels []string
		least  float64
	}{
		{"scheduler_schedule_attempts_total", []string{"result=unschedulable", profile}, 1},
		{"scheduler_schedule_attempts_total", []string{"result=error", profile}, 1},
		{"scheduler_scheduling_attempt_duration_seconds", []string{"result=scheduled", profile}, 2},
		{"scheduler_scheduling_algorithm_duration_seconds", nil, 4},
		{"scheduler_framework_extension_point_duration_seconds", []string{"extension_point=Filter", "status=Success", profile}, 3},
		{"scheduler_framework_extension_point_duration_seconds", []string{"extension_point=Filter", "status=Unschedulable", profile}, 1},
		{"scheduler_framework_extension_point_duration_seconds", []string{"extension_point=Score", "status=Success", profile}, 3},
		{"scheduler_framework_extension_point_duration_seconds", []string{"extension_point=Bind", "status=Error", profile}, 1},
		{"scheduler_framework_extension_point_duration_seconds", []string{"extension_point=Bind", "status=Success", profile}, 2},
		{"scheduler_plugin_evaluation_total", []string{"plugin=" + schedulertest.FitCPU.Name, "extension_point=Filter", profile}, 4},
		{"scheduler_plugin_evaluation_total", []string{"plugin=" + schedulertest.LeastCPU.Name, "extension_point=Score", profile}, 3},
	} {
		if got := count(want.name, want.labels...); got < want.least {
			t.Errorf("%s%v is %v, want %v or more", want.name, want.labels, got, want.least)
		}
	}
	eventually(t, "sizes", func() bool {
		c.clock.Step(sweepEvery)
		return count("scheduler_cache_size", "type=nodes") == 1 && count("scheduler_cache_size", "type=pods") == 2 &&
			count("scheduler_cache_size", "type=assumed_pods") == 0 && count("scheduler_goroutines", "operation=binding") == 0
	})
}
