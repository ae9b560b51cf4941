package measures

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/metrics"
	"pintle.dev/pintle/sdk/proxy"
)

// served is what the process serves to the kernel.
func served(t *testing.T) string {
	t.Helper()
	server, ok := metrics.Service().(contractv1.MetricsServer)
	if !ok {
		t.Fatal("metrics are not served")
	}
	answer, err := server.Gather(t.Context(), &contractv1.MetricsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return string(answer.GetExposition())
}

// TestMeasures: what happens is served under kube-proxy's names and labels.
func TestMeasures(t *testing.T) {
	Register()
	Changes(&proxy.Diff{Changes: []*proxy.Change{
		{Change: &contractv1.ProxyChange_ServiceSet{}}, {Change: &contractv1.ProxyChange_ServiceRemove{}}, {Change: &contractv1.ProxyChange_EndpointsSet{}},
	}})
	Begin("IPv4", true).End(true)
	Begin("IPv6", false).End(false)
	NFTablesFailed("IPv6")
	CleanupFailed("IPv4")
	RestoreFailed("IPv4", true)
	RestoreFailed("IPv4", false)
	Flows("IPv4", time.Millisecond, 7)
	Health(true, 503)
	Health(false, 200)
	text := served(t)
	// The kernel takes none of a plugin's metrics where one has a name of its own.
	if strings.Contains(text, "\npintle_") {
		t.Error("a metric has a name of the kernel's")
	}
	for _, line := range []string{
		`kubeproxy_sync_proxy_rules_service_changes_total 2`, `kubeproxy_sync_proxy_rules_endpoint_changes_total 1`,
		`kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1`, `kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1`,
		`kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv6"} 1`,
		`kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv6"} 1`, `kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total{ip_family="IPv4"} 1`,
		`kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"} 2`, `kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv4"} 1`,
		`kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 7`, `kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"} 1`,
		`kubeproxy_proxy_healthz_total{code="503"} 1`, `kubeproxy_proxy_livez_total{code="200"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("not served: %s", line)
		}
	}
	for name, want := range map[string]bool{
		`kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"}`: true, `kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv6"}`: false,
		`kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv6"}`: true,
	} {
		if strings.Contains(text, name) != want {
			t.Errorf("%s is served: %t", name, !want)
		}
	}
}

// TestNames: each name is one of the list of kube-proxy 1.36.
func TestNames(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "kube-proxy-1.36.txt"))
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]bool{}
	for _, name := range strings.Fields(string(data)) {
		theirs[name] = true
	}
	source, err := os.ReadFile("measures.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?:seconds|gauge|counter)\("([a-z_]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(found) != 15 {
		t.Errorf("%d metrics", len(found))
	}
	for _, name := range found {
		if !theirs[name[1]] {
			t.Errorf("kube-proxy has no metric %s", name[1])
		}
	}
}
