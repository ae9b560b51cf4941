package statefulset

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// most is the largest number of workers.
const most = 1000

// Config has the names and defaults of kube-controller-manager's configuration
// of this controller. A key that is left out has its default.
type Config struct {
	ConcurrentStatefulSetSyncs int32 `json:"concurrentStatefulSetSyncs"` // sets that are synced at once; 5
}

// readConfig reads JSON; no key may be unknown and no value out of range.
func readConfig(data []byte) (Config, error) {
	c := Config{ConcurrentStatefulSetSyncs: 5}
	if len(data) > 0 {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return c, fmt.Errorf("configuration: %w", err)
		}
	}
	if n := c.ConcurrentStatefulSetSyncs; n < 1 || n > most {
		return c, fmt.Errorf("configuration: concurrentStatefulSetSyncs: %d is not from 1 to %d", n, most)
	}
	return c, nil
}
