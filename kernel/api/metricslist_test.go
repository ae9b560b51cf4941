package api_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
)

// absentMetrics are those of kube-apiserver that are left out, by how they begin, and why.
// Those of what is switched on by a file or a gate are there with it.
var absentMetrics = map[string]string{
	"aggregator_discovery_nopeer_requests_total":        peersOfOthers,
	"aggregator_discovery_peer_":                        peersOfOthers,
	"apiserver_authentication_config_controller_":       withFile + "an AuthenticationConfiguration",
	"apiserver_authentication_jwt_":                     withFile + "an AuthenticationConfiguration",
	"apiserver_authorization_config_controller_":        withFile + "an AuthorizationConfiguration",
	"apiserver_authorization_match_condition_":          withFile + "an AuthorizationConfiguration",
	"apiserver_authorization_webhook_":                  withFile + "an AuthorizationConfiguration",
	"apiserver_delegated_auth":                          withFile + "an AuthorizationConfiguration or an AuthenticationConfiguration, with webhooks",
	"authentication_token_cache_":                       "tokens are verified without such a cache: kernel/api/auth/token keeps what it has verified",
	"apiserver_certificates_registry_":                  "requests of certificates are not counted by how long they ask for",
	"apiserver_clusterip_repair_":                       "repairs of addresses are logged",
	"apiserver_nodeport_repair_":                        "repairs of ports are logged",
	"kube_apiserver_clusterip_allocator_":               "the allocator counts nothing",
	"kube_apiserver_nodeport_allocator_":                "the allocator counts nothing",
	"kube_apiserver_pod_logs_":                          "nobody may skip the verification of the node agent's certificate",
	"apiserver_crd_conversion_webhook_duration_seconds": "the library registers it with the first conversion webhook",
	"apiserver_externaljwt_":                            "tokens are signed by the kernel's own key",
	"apiserver_flowcontrol_request_concurrency_in_use":  "gone from the libraries in 1.37, where it is apiserver_flowcontrol_current_executing_seats",
	"apiserver_flowcontrol_request_concurrency_limit":   "gone from the libraries in 1.37, where it is apiserver_flowcontrol_nominal_limit_seats",
	"apiserver_request_slo_duration_seconds":            "gone from the libraries in 1.37, where it is apiserver_request_sli_duration_seconds",
	"apiserver_storage_db_total_size_in_bytes":          "gone from the libraries in 1.37, where it is apiserver_storage_size_bytes",
	"informer_":                         "the libraries count it with an option that nobody sets",
	"leader_election_":                  "kernels elect by kernel/leader.go, with a Lease, and log it",
	"node_authorizer_graph_":            "the node authorizer keeps relations without a graph (kernel/api/auth/node)",
	"rest_client_":                      "the kernel's own clients do not use the network",
	"running_managed_controllers":       "controllers are plugins: their state is in the Plugin objects",
	"serviceaccount_stale_tokens_total": "tokens of service accounts are not extended, and none is stale",
	"serviceaccount_valid_tokens_total": "tokens are counted as other credentials are (authenticated_user_requests)",
}

const (
	peersOfOthers = withFile + "a store that several kernels share"
	// withFile begins the reason of what a configuration brings.
	withFile = "registered with "
)

// TestMetricsOfUpstream: what kube-apiserver tells is told under the same name, but for what is left out with a reason.
func TestMetricsOfUpstream(t *testing.T) {
	s := start(t, t.TempDir())
	ask := asker(t, s)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	if _, err := overTLS(t, s).CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var body []byte
	waitFor(t, func() bool { // objects are counted beside the start
		_, body = ask("GET", "/metrics", "")
		return strings.Contains(string(body), `apiserver_resource_objects{group="",resource="configmaps"}`)
	})
	served := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllSubmatch(body, -1) {
		served[string(line[1])] = true
	}
	data, err := os.ReadFile("testdata/upstream/metrics-1.36.txt")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for name := range strings.Lines(string(data)) {
		if name = strings.TrimSpace(name); name == "" || name[0] == '#' {
			continue
		}
		why := ""
		for prefix := range absentMetrics {
			if strings.HasPrefix(name, prefix) && len(prefix) > len(why) {
				why = prefix
			}
		}
		if reason := absentMetrics[why]; strings.HasPrefix(reason, withFile) || strings.Contains(reason, "registers it with") {
			// Another test may register it later, in which a probe would be in its way.
			used[why] = true
			continue
		}
		there := served[name]
		if !there {
			// One that has counted nothing yet is registered all the same, and nothing else can take its name.
			probe := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "probe"})
			if err := legacyregistry.Registerer().Register(probe); err != nil {
				there = true
			} else {
				legacyregistry.Registerer().Unregister(probe)
			}
		}
		used[why] = true
		switch {
		case !there && why == "":
			t.Errorf("%s is not there, and no reason is given", name)
		case there && why != "":
			t.Errorf("%s is there, and a reason is given why not: %s", name, absentMetrics[why])
		}
	}
	for _, prefix := range slices.Sorted(maps.Keys(absentMetrics)) {
		if !used[prefix] {
			t.Errorf("no metric begins with %s", prefix)
		}
	}
	for _, want := range []string{
		`apiserver_admission_controller_admission_duration_seconds_count{name="NamespaceLifecycle",operation="CREATE",rejected="false",type="admit"}`,
		`apiserver_admission_step_admission_duration_seconds_count{operation="CREATE",rejected="false",type="validate"}`,
		`kubernetes_build_info{build_date="",compiler="gc",git_commit="",git_tree_state="clean",git_version="v1.36.3+pintle"`,
	} {
		if !strings.Contains(string(body), "\n"+want) {
			t.Errorf("no line begins with %s", want)
		}
	}
}
