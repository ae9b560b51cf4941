package endpointslice

import (
	"errors"

	"pintle.dev/pintle/plugins/controllers/settings"
)

// Config has the names and defaults of kube-controller-manager's configuration of this
// controller. A key that is left out has its default.
type Config struct {
	ConcurrentServiceEndpointSyncs int `json:"concurrentServiceEndpointSyncs"` // services that are worked on at once; 5
	MaxEndpointsPerSlice           int `json:"maxEndpointsPerSlice"`           // endpoints in a slice; 1 to 1000, 100
}

func readConfig(data []byte) (Config, error) {
	c := Config{ConcurrentServiceEndpointSyncs: workers, MaxEndpointsPerSlice: maxPerSlice}
	if err := settings.Read(data, &c); err != nil {
		return c, err
	}
	return c, errors.Join(
		settings.Within("concurrentServiceEndpointSyncs", c.ConcurrentServiceEndpointSyncs, 1, settings.MostWorkers),
		settings.Within("maxEndpointsPerSlice", c.MaxEndpointsPerSlice, 1, 1000))
}
