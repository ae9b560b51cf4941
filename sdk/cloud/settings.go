package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/names"
	netutils "k8s.io/utils/net"

	"pintle.dev/pintle/sdk/controller"
)

// settings are those of the controllers, with the names and defaults of
// cloud-controller-manager, beside the keys of the provider in one object.
type settings struct {
	// Controllers are which of them run: "*" all, a name one more, "-name" not that one.
	Controllers []string `json:"controllers"`
	// ConcurrentServiceSyncs is how many services are worked on at once.
	ConcurrentServiceSyncs int `json:"concurrentServiceSyncs"`
	// ConcurrentNodeSyncs is how many nodes are initialised at once.
	ConcurrentNodeSyncs int `json:"concurrentNodeSyncs"`
	// ConcurrentNodeStatusUpdates is how many nodes' addresses are compared at once.
	ConcurrentNodeStatusUpdates int `json:"concurrentNodeStatusUpdates"`
	// NodeStatusUpdateFrequency is how often nodes' addresses are asked for.
	NodeStatusUpdateFrequency metav1.Duration `json:"nodeStatusUpdateFrequency"`
	// NodeMonitorPeriod is how often it is asked whether nodes that are not ready exist.
	NodeMonitorPeriod metav1.Duration `json:"nodeMonitorPeriod"`
	// RouteReconciliationPeriod is how often routes are compared.
	RouteReconciliationPeriod metav1.Duration `json:"routeReconciliationPeriod"`
	// ClusterName is what load balancers and routes are told apart by.
	ClusterName string `json:"clusterName"`
	// ClusterCIDR are the ranges of pods, with commas between them. Routes need it.
	ClusterCIDR string `json:"clusterCIDR"`
	// ConfigureCloudRoutes says whether the route controller may run.
	ConfigureCloudRoutes bool `json:"configureCloudRoutes"`
	// ProviderTimeout is how long one call of the provider may take. It is Pintle's own.
	ProviderTimeout metav1.Duration `json:"providerTimeout"`

	clusterCIDRs []*net.IPNet
}

const mostWorkers = 1000

// keys are those of settings.
var keys = []string{
	"controllers", "concurrentServiceSyncs", "concurrentNodeSyncs", "concurrentNodeStatusUpdates", "nodeStatusUpdateFrequency",
	"nodeMonitorPeriod", "routeReconciliationPeriod", "clusterName", "clusterCIDR", "configureCloudRoutes", "providerTimeout",
}

// known are upstream's controllers.
var known = []string{names.CloudNodeController, names.CloudNodeLifecycleController, names.NodeRouteController, names.ServiceLBController}

func defaults() settings {
	return settings{
		Controllers: []string{"*"}, ConcurrentServiceSyncs: 1, ConcurrentNodeSyncs: 1, ConcurrentNodeStatusUpdates: 1,
		NodeStatusUpdateFrequency: metav1.Duration{Duration: 5 * time.Minute},
		NodeMonitorPeriod:         metav1.Duration{Duration: 5 * time.Second},
		RouteReconciliationPeriod: metav1.Duration{Duration: 10 * time.Second},
		ClusterName:               "kubernetes", ConfigureCloudRoutes: true,
		ProviderTimeout: metav1.Duration{Duration: 2 * time.Minute},
	}
}

// readSettings splits a configuration into the settings of the controllers and the
// provider's own keys.
func readSettings(config []byte) (settings, []byte, error) {
	s, all := defaults(), map[string]json.RawMessage{}
	if err := controller.DecodeConfig(config, &all); err != nil {
		return s, nil, err
	}
	theirs := map[string]json.RawMessage{}
	for _, key := range keys {
		if value, there := all[key]; there {
			theirs[key] = value
			delete(all, key)
		}
	}
	data, err := json.Marshal(theirs)
	if err == nil {
		err = controller.DecodeConfig(data, &s)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return s, nil, err
	}
	own, err := json.Marshal(all)
	return s, own, err
}

func (s *settings) check() error {
	for key, n := range map[string]int{
		"concurrentServiceSyncs": s.ConcurrentServiceSyncs, "concurrentNodeSyncs": s.ConcurrentNodeSyncs, "concurrentNodeStatusUpdates": s.ConcurrentNodeStatusUpdates,
	} {
		if n < 1 || n > mostWorkers {
			return fmt.Errorf("configuration: %s: %d is not within 1 and %d", key, n, mostWorkers)
		}
	}
	for key, d := range map[string]metav1.Duration{
		"nodeStatusUpdateFrequency": s.NodeStatusUpdateFrequency, "nodeMonitorPeriod": s.NodeMonitorPeriod,
		"routeReconciliationPeriod": s.RouteReconciliationPeriod, "providerTimeout": s.ProviderTimeout,
	} {
		if d.Duration < time.Second {
			return fmt.Errorf("configuration: %s: %s is less than 1s", key, d.Duration)
		}
	}
	if s.ClusterName == "" {
		return errors.New("configuration: clusterName: want a name")
	}
	for _, name := range s.Controllers {
		if name != "*" && !slices.Contains(known, canonical(strings.TrimPrefix(name, "-"))) {
			return fmt.Errorf("configuration: controllers: there is no %q; want *, or one of %s", name, strings.Join(known, ", "))
		}
	}
	if s.ClusterCIDR == "" {
		return nil
	}
	var err error
	if s.clusterCIDRs, err = netutils.ParseCIDRs(strings.Split(strings.TrimSpace(s.ClusterCIDR), ",")); err != nil {
		return fmt.Errorf("configuration: clusterCIDR: %w", err)
	}
	if both, _ := netutils.IsDualStackCIDRs(s.clusterCIDRs); len(s.clusterCIDRs) > 2 || len(s.clusterCIDRs) == 2 && !both {
		return fmt.Errorf("configuration: clusterCIDR: %s: want one range, or one of each family", s.ClusterCIDR)
	}
	return nil
}

// canonical turns upstream's former names into those of today.
func canonical(name string) string {
	if now, former := names.CCMControllerAliases()[name]; former {
		return now
	}
	return name
}

// runs says whether a controller is switched on, as upstream's --controllers does.
func (s *settings) runs(controller string) bool {
	all := false
	for _, name := range s.Controllers {
		switch {
		case name == "*":
			all = true
		case canonical(strings.TrimPrefix(name, "-")) == controller:
			return !strings.HasPrefix(name, "-")
		}
	}
	return all
}
