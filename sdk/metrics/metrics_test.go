package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func TestGather(t *testing.T) {
	r := prometheus.NewRegistry()
	seen := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pods_seen_total", Help: "Pods."}, []string{"zone"})
	r.MustRegister(seen)
	seen.WithLabelValues("a").Add(3)
	s := &service{from: r}
	resp, err := s.Gather(t.Context(), &contractv1.MetricsRequest{})
	want := "# HELP pods_seen_total Pods.\n# TYPE pods_seen_total counter\npods_seen_total{zone=\"a\"} 3\n"
	if got := string(resp.GetExposition()); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	library := prometheus.NewRegistry()
	library.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "library_calls_total", Help: "Calls."}), prometheus.NewCounter(prometheus.CounterOpts{Name: "go_calls_total", Help: "Calls."}))
	s.others = []other{{library, []string{"library_"}}}
	resp, err = s.Gather(t.Context(), &contractv1.MetricsRequest{})
	if got := string(resp.GetExposition()); err != nil || !strings.Contains(got, "\nlibrary_calls_total 0\n") || !strings.Contains(got, "pods_seen_total") || strings.Contains(got, "go_calls") {
		t.Errorf("with a library's: %q, %v", got, err)
	}
	seen.WithLabelValues(strings.Repeat("x", MaxBytes)).Inc()
	if _, err := s.Gather(t.Context(), &contractv1.MetricsRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("more than fits: %v", err)
	}
}
