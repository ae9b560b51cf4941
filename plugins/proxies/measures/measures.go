package measures

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/metrics"
	"pintle.dev/pintle/sdk/proxy"
)

const family = "ip_family"

var (
	syncSeconds    = seconds("sync_proxy_rules_duration_seconds", "How long a sync of rules takes.")
	fullSeconds    = seconds("sync_full_proxy_rules_duration_seconds", "How long a sync of all rules takes.")
	partialSeconds = seconds("sync_partial_proxy_rules_duration_seconds", "How long a sync of the rules that changed takes.")
	flowSeconds    = seconds("conntrack_reconciler_sync_duration_seconds", "How long looking for stale flows takes.")

	lastSync   = gauge("sync_proxy_rules_last_timestamp_seconds", "When rules were last synced, as Unix time.")
	lastQueued = gauge("sync_proxy_rules_last_queued_timestamp_seconds", "When a sync of rules was last asked for, as Unix time.")

	serviceChanges  = counter("sync_proxy_rules_service_changes_total", "Changes of services.")
	endpointChanges = counter("sync_proxy_rules_endpoint_changes_total", "Changes of endpoints.")
	nftFailures     = counter("sync_proxy_rules_nftables_sync_failures_total", "Syncs of nftables that failed.", family)
	cleanFailures   = counter("sync_proxy_rules_nftables_cleanup_failures_total", "Deletions of chains of nftables that failed.", family)
	restoreFailures = counter("sync_proxy_rules_iptables_restore_failures_total", "Calls of iptables-restore that failed.", family)
	partialFailures = counter("sync_proxy_rules_iptables_partial_restore_failures_total", "Calls of iptables-restore with what changed that failed.", family)
	flowsDeleted    = counter("conntrack_reconciler_deleted_entries_total", "Stale flows that were deleted.", family)
	healthz         = counter("proxy_healthz_total", "Answers on /healthz by their code.", "code")
	livez           = counter("proxy_livez_total", "Answers on /livez by their code.", "code")
)

const subsystem = "kubeproxy"

func seconds(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: subsystem, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{family})
}

func gauge(name, help string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, []string{family})
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
}

// Register has the process serve all of it. It is called once.
func Register() {
	metrics.Register(syncSeconds, fullSeconds, partialSeconds, flowSeconds, lastSync, lastQueued, serviceChanges, endpointChanges,
		nftFailures, cleanFailures, restoreFailures, partialFailures, flowsDeleted, healthz, livez, connections{})
}

// connections are the kernel's table of tracked connections, as it is when it is asked for. Who
// may not read it serves none of it.
type connections struct{}

var (
	entries        = prometheus.NewDesc("node_nf_conntrack_entries", "Connections that the kernel tracks.", nil, nil)
	entriesLimit   = prometheus.NewDesc("node_nf_conntrack_entries_limit", "Connections that the kernel may track.", nil, nil)
	droppedPackets = prometheus.NewDesc("node_nf_conntrack_stat_drop", "Packets that began a connection and were dropped, since the kernel had no room to track it.", nil, nil)
)

// Describe implements prometheus.Collector.
func (connections) Describe(to chan<- *prometheus.Desc) {
	to <- entries
	to <- entriesLimit
	to <- droppedPackets
}

// Collect implements prometheus.Collector.
func (connections) Collect(to chan<- prometheus.Metric) {
	u, err := conntrack.ReadUsage()
	if err != nil {
		return
	}
	to <- prometheus.MustNewConstMetric(entries, prometheus.GaugeValue, float64(u.Entries))
	to <- prometheus.MustNewConstMetric(entriesLimit, prometheus.GaugeValue, float64(u.Limit))
	to <- prometheus.MustNewConstMetric(droppedPackets, prometheus.CounterValue, float64(u.Dropped))
}

// Changes counts what a diff brings.
func Changes(diff *proxy.Diff) {
	for _, c := range diff.GetChanges() {
		switch c.GetChange().(type) {
		case *contractv1.ProxyChange_ServiceSet, *contractv1.ProxyChange_ServiceRemove:
			serviceChanges.WithLabelValues().Inc()
		case *contractv1.ProxyChange_EndpointsSet, *contractv1.ProxyChange_EndpointsRemove:
			endpointChanges.WithLabelValues().Inc()
		}
	}
}

// Sync is a sync of the rules of one family (IPv4 or IPv6) that began.
type Sync struct {
	family string
	full   bool
	begun  time.Time
}

// Begin begins one, of all rules or of those that changed.
func Begin(family string, full bool) Sync {
	s := Sync{family, full, time.Now()}
	lastQueued.WithLabelValues(family).Set(float64(s.begun.UnixNano()) / 1e9)
	return s
}

// End ends it; ok says that the data path shows everything.
func (s Sync) End(ok bool) {
	now := time.Now()
	took, part := now.Sub(s.begun).Seconds(), partialSeconds
	if s.full {
		part = fullSeconds
	}
	syncSeconds.WithLabelValues(s.family).Observe(took)
	part.WithLabelValues(s.family).Observe(took)
	if ok {
		lastSync.WithLabelValues(s.family).Set(float64(now.UnixNano()) / 1e9)
	}
}

// NFTablesFailed counts a sync that nftables did not take.
func NFTablesFailed(family string) { nftFailures.WithLabelValues(family).Inc() }

// CleanupFailed counts a deletion of chains that nftables did not take.
func CleanupFailed(family string) { cleanFailures.WithLabelValues(family).Inc() }

// RestoreFailed counts a call of iptables-restore that failed, with all rules or with a part.
func RestoreFailed(family string, full bool) {
	restoreFailures.WithLabelValues(family).Inc()
	if !full {
		partialFailures.WithLabelValues(family).Inc()
	}
}

// Flows counts a look for stale flows, and those that were deleted.
func Flows(family string, took time.Duration, deleted int) {
	flowSeconds.WithLabelValues(family).Observe(took.Seconds())
	flowsDeleted.WithLabelValues(family).Add(float64(deleted))
}

// Health counts an answer on /healthz, or on /livez.
func Health(ofNode bool, code int) {
	of := livez
	if ofNode {
		of = healthz
	}
	of.WithLabelValues(strconv.Itoa(code)).Inc()
}
