package cloud

import (
	"strings"
	"testing"
	"time"

	"k8s.io/cloud-provider/names"
)

func TestSettings(t *testing.T) {
	s, own, err := readSettings(nil)
	if err != nil || string(own) != "{}" || s.ConcurrentServiceSyncs != 1 || s.NodeStatusUpdateFrequency.Duration != 5*time.Minute || !s.ConfigureCloudRoutes || !s.runs(names.ServiceLBController) {
		t.Errorf("defaults: %+v, %s, %v", s, own, err)
	}
	s, own, err = readSettings([]byte(`{"zone":"a","concurrentServiceSyncs":7,"clusterCIDR":"10.244.0.0/16,fd00::/48","list":[1]}`))
	if err != nil || string(own) != `{"list":[1],"zone":"a"}` || s.ConcurrentServiceSyncs != 7 || len(s.clusterCIDRs) != 2 {
		t.Errorf("both: %+v, %s, %v", s, own, err)
	}
	for config, want := range map[string]string{
		`{"concurrentServiceSyncs":0}`:                     "concurrentServiceSyncs: 0 is not within",
		`{"concurrentNodeSyncs":1001}`:                     "1001 is not within",
		`{"concurrentNodeStatusUpdates":"1"}`:              "cannot unmarshal",
		`{"nodeMonitorPeriod":"10ms"}`:                     "nodeMonitorPeriod: 10ms is less than 1s",
		`{"providerTimeout":"-1s"}`:                        "less than 1s",
		`{"clusterName":""}`:                               "clusterName: want a name",
		`{"controllers":["magic"]}`:                        `there is no "magic"; want *, or one of cloud-node-controller`,
		`{"controllers":["-magic"]}`:                       `there is no "-magic"`,
		`{"clusterCIDR":"10.244.0.0"}`:                     "clusterCIDR:",
		`{"clusterCIDR":"10.244.0.0/16,10.245.0.0/16"}`:    "one of each family",
		`{"clusterCIDR":"10.244.0.0/16,fd00::/48,10::/8"}`: "one of each family",
		`null`: "want an object", `[]`: "want an object", `{} {}`: "nothing behind it", `{`: "unexpected EOF",
	} {
		if _, _, err := readSettings([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
}

// TestControllers: which controllers run is said as upstream's --controllers says it.
func TestControllers(t *testing.T) {
	for _, c := range []struct{ list, runs string }{
		{"*", "cloud-node-controller cloud-node-lifecycle-controller node-route-controller service-lb-controller"},
		{"", ""},
		{"service-lb-controller", "service-lb-controller"},
		{"service", "service-lb-controller"},
		{"* -cloud-node", "cloud-node-lifecycle-controller node-route-controller service-lb-controller"},
		{"-service-lb-controller *", "cloud-node-controller cloud-node-lifecycle-controller node-route-controller"},
		{"-route", ""},
	} {
		s := settings{Controllers: strings.Fields(c.list)}
		var runs []string
		for _, name := range known {
			if s.runs(name) {
				runs = append(runs, name)
			}
		}
		if strings.Join(runs, " ") != c.runs {
			t.Errorf("%q: %v, want %s", c.list, runs, c.runs)
		}
	}
}
