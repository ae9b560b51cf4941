package nodeipam

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"pintle.dev/pintle/sdk/metrics"
)

const subsystem = "node_ipam_controller"

// kube-controller-manager's metrics of this controller, under its names.
var (
	allocations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "cidrset_cidrs_allocations_total", Help: "Blocks allocated, by range of the cluster.",
	}, []string{"clusterCIDR"})
	releases = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "cidrset_cidrs_releases_total", Help: "Blocks released.",
	}, []string{"clusterCIDR"})
	most = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "cirdset_max_cidrs", Help: "Number of blocks.",
	}, []string{"clusterCIDR"})
	usage = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "cidrset_usage_cidrs", Help: "Share of the blocks that is allocated.",
	}, []string{"clusterCIDR"})
	tries = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: subsystem, Name: "cidrset_allocation_tries_per_request", Help: "Allocated blocks that a search skipped before it found a free one.",
		Buckets: prometheus.ExponentialBuckets(1, 5, 5),
	}, []string{"clusterCIDR"})

	register = sync.OnceFunc(func() { metrics.Register(allocations, releases, most, usage, tries) })
)

// counts are the metrics of one pool.
type counts struct {
	allocations, releases prometheus.Counter
	most, usage           prometheus.Gauge
	tries                 prometheus.Observer
}

func countsOf(cluster string) *counts {
	return &counts{
		allocations: allocations.WithLabelValues(cluster), releases: releases.WithLabelValues(cluster),
		most: most.WithLabelValues(cluster), usage: usage.WithLabelValues(cluster), tries: tries.WithLabelValues(cluster),
	}
}
