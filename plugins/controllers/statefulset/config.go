package statefulset

import (
	"fmt"

	"pintle.dev/pintle/plugins/controllers/settings"
)

// Config has the names and defaults of kube-controller-manager's configuration
// of this controller. A key that is left out has its default.
type Config struct {
	ConcurrentStatefulSetSyncs int `json:"concurrentStatefulSetSyncs"` // sets that are synced at once; 1 to 1000, 5
}

// readConfig reads JSON; no key may be unknown and no value out of range.
func readConfig(data []byte) (Config, error) {
	n, err := settings.Workers(data, "concurrentStatefulSetSyncs", 5)
	if err != nil {
		return Config{}, fmt.Errorf("statefulset: %w", err)
	}
	return Config{ConcurrentStatefulSetSyncs: n}, nil
}
