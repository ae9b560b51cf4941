package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Config has the name and default of kube-controller-manager's configuration of
// this controller.
type Config struct {
	// ConcurrentJobSyncs is how many Jobs are worked on at once, and how many
	// pods without a Job; 1 to 1000, default 5.
	ConcurrentJobSyncs int `json:"concurrentJobSyncs"`
}

func readConfig(data []byte) (Config, error) {
	c := Config{ConcurrentJobSyncs: 5}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, fmt.Errorf("job configuration: %w; it has concurrentJobSyncs", err)
	}
	if c.ConcurrentJobSyncs < 1 || c.ConcurrentJobSyncs > 1000 {
		return c, fmt.Errorf("job configuration: concurrentJobSyncs: %d is not within 1 and 1000", c.ConcurrentJobSyncs)
	}
	return c, nil
}
