package imagepolicy

import (
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/yaml"
)

// Configuration of the plugin, as upstream's file has it below imagePolicy. A TTL of -1
// keeps no answer.
type Configuration struct {
	KubeConfigFile string `json:"kubeConfigFile"`
	// AllowTTL and DenyTTL are seconds, RetryBackoff milliseconds; 0 is the default.
	AllowTTL     int64 `json:"allowTTL,omitempty"`
	DenyTTL      int64 `json:"denyTTL,omitempty"`
	RetryBackoff int64 `json:"retryBackoff,omitempty"`
	// DefaultAllow lets pods pass when the server fails.
	DefaultAllow bool `json:"defaultAllow,omitempty"`
}

// times are the durations of a configuration.
type times struct{ allow, deny, backoff time.Duration }

// load reads a configuration in YAML or JSON.
func load(data []byte) (*Configuration, times, error) {
	if len(data) == 0 {
		return nil, times{}, errors.New("it has no configuration: name it in the file of admission.config")
	}
	var file struct {
		ImagePolicy *Configuration `json:"imagePolicy"`
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, times{}, fmt.Errorf("read the configuration: %w", err)
	}
	c := file.ImagePolicy
	if c == nil || c.KubeConfigFile == "" {
		return nil, times{}, errors.New("imagePolicy.kubeConfigFile: is empty; want the kubeconfig of the server to ask")
	}
	var t times
	for _, d := range []struct {
		key             string
		value           int64
		unit, least     time.Duration
		most, byDefault time.Duration
		into            *time.Duration
	}{
		{"allowTTL", c.AllowTTL, time.Second, time.Second, 30 * time.Minute, 5 * time.Minute, &t.allow},
		{"denyTTL", c.DenyTTL, time.Second, time.Second, 30 * time.Minute, 30 * time.Second, &t.deny},
		{"retryBackoff", c.RetryBackoff, time.Millisecond, time.Millisecond, 5 * time.Minute, 500 * time.Millisecond, &t.backoff},
	} {
		switch value := time.Duration(d.value) * d.unit; {
		case d.value == -1:
			*d.into = 0
		case d.value == 0:
			*d.into = d.byDefault
		case d.value < -1 || d.value > int64(d.most/d.unit) || value < d.least:
			return nil, times{}, fmt.Errorf("imagePolicy.%s: valid value is between %v and %v, got %d (in units of %v)", d.key, d.least, d.most, d.value, d.unit)
		default:
			*d.into = value
		}
	}
	return c, t, nil
}
