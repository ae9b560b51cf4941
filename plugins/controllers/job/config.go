package job

import (
	"fmt"

	"pintle.dev/pintle/plugins/controllers/settings"
)

// Config has the name and default of kube-controller-manager's configuration of
// this controller.
type Config struct {
	// ConcurrentJobSyncs is how many Jobs are worked on at once, and how many
	// pods without a Job; 1 to 1000, default 5.
	ConcurrentJobSyncs int `json:"concurrentJobSyncs"`
}

func readConfig(data []byte) (Config, error) {
	n, err := settings.Workers(data, "concurrentJobSyncs", 5)
	if err != nil {
		return Config{}, fmt.Errorf("job: %w", err)
	}
	return Config{ConcurrentJobSyncs: n}, nil
}
