//go:build !wasip1

package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"pintle.dev/pintle/sdk/metrics"
)

func init() {
	asked := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "guest_asked_total", Help: "Questions."}, []string{"plugin"})
	asked.WithLabelValues("FitsCPU").Add(7)
	// A name that every process has, and one that is the kernel's.
	threads := prometheus.NewGauge(prometheus.GaugeOpts{Name: "process_threads_of_mine", Help: "Another help than the kernel's."})
	mine := prometheus.NewGauge(prometheus.GaugeOpts{Name: "apiserver_of_the_kernel", Help: "Not to be had."})
	metrics.Register(asked, threads, mine)
}
