package networkpolicy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Name is the plugin's.
const Name = "networkpolicy"

// Config is the plugin's configuration.
type Config struct {
	// CheckInterval is how often the plugin looks whether somebody else changed rules of
	// the machine, as a duration of 1s or more. Defaults to 5s.
	CheckInterval string `json:"checkInterval,omitempty"`

	check time.Duration
}

func parseConfig(data []byte) (Config, error) {
	c := Config{check: 5 * time.Second}
	if len(data) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&c); err != nil {
			return c, fmt.Errorf("read configuration of %s: %w", Name, err)
		}
	}
	if c.CheckInterval != "" {
		d, err := time.ParseDuration(c.CheckInterval)
		if err != nil || d < time.Second {
			return c, fmt.Errorf("configuration of %s: checkInterval %q: want a duration of 1s or more", Name, c.CheckInterval)
		}
		c.check = d
	}
	return c, nil
}
