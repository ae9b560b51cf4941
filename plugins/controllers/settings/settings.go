package settings

import (
	"fmt"

	"pintle.dev/pintle/sdk/controller"
)

// MostWorkers is the largest number of keys that one queue works on at once.
const MostWorkers = 1000

// Read decodes JSON into a struct that has the defaults. No data leaves them.
func Read(data []byte, into any) error { return controller.DecodeConfig(data, into) }

// Within checks a number of a configuration.
func Within(key string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("configuration: %s: %d is not within %d and %d", key, n, least, most)
	}
	return nil
}

// Workers reads the configuration of a controller whose one key is how many workers its
// queue has.
func Workers(data []byte, key string, standard int) (int, error) {
	values := map[string]int{}
	if err := Read(data, &values); err != nil {
		return 0, fmt.Errorf("%w; it has %s", err, key)
	}
	for name := range values {
		if name != key {
			return 0, fmt.Errorf("configuration: unknown field %q; it has %s", name, key)
		}
	}
	n, set := values[key]
	if !set {
		return standard, nil
	}
	return n, Within(key, n, 1, MostWorkers)
}

// Unconfigured is a controller that has no key.
func Unconfigured(name string, build func(*controller.Context) (controller.Runner, error)) controller.Controller {
	return controller.Controller{Name: name, New: func(c *controller.Context) (controller.Runner, error) {
		if err := Read(c.Config, &struct{}{}); err != nil {
			return nil, fmt.Errorf("%w; %s has no configuration", err, name)
		}
		return build(c)
	}}
}
