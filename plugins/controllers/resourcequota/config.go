package resourcequota

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/plugins/controllers/settings"
)

// Config has the names and defaults of kube-controller-manager's configuration of this
// controller. A key that is left out has its default.
type Config struct {
	ConcurrentResourceQuotaSyncs int             `json:"concurrentResourceQuotaSyncs"` // quotas that are worked on at once; 5
	ResourceQuotaSyncPeriod      metav1.Duration `json:"resourceQuotaSyncPeriod"`      // all quotas are counted anew that often; 5m
}

func readConfig(data []byte) (Config, error) {
	c := Config{ConcurrentResourceQuotaSyncs: workers, ResourceQuotaSyncPeriod: metav1.Duration{Duration: fullResync}}
	if err := settings.Read(data, &c); err != nil {
		return c, err
	}
	if c.ResourceQuotaSyncPeriod.Duration < time.Second {
		return c, fmt.Errorf("configuration: resourceQuotaSyncPeriod: %s is less than 1s", c.ResourceQuotaSyncPeriod.Duration)
	}
	return c, settings.Within("concurrentResourceQuotaSyncs", c.ConcurrentResourceQuotaSyncs, 1, settings.MostWorkers)
}
