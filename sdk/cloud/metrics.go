package cloud

import (
	"sync"

	"k8s.io/component-base/metrics/legacyregistry"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"pintle.dev/pintle/sdk/metrics"
)

// manager is what upstream's metrics call the program that runs the controllers.
const manager = "cloud-controller-manager"

var telling sync.Once

// tellMetrics has the kernel's /metrics show what upstream's controllers count, under the
// names that they have in cloud-controller-manager.
func tellMetrics() {
	telling.Do(func() {
		controllersmetrics.Register()
		metrics.RegisterGatherer(legacyregistry.DefaultGatherer, "service_controller_", "node_controller_", "route_controller_", "running_managed_controllers")
	})
}
