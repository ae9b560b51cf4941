package persistentvolumebinder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config has the names and defaults of kube-controller-manager's configuration
// of this controller. A key that is left out has its default.
type Config struct {
	PVClaimBinderSyncPeriod   metav1.Duration `json:"pvClaimBinderSyncPeriod"`   // all claims and volumes are looked at that often; 15s
	EnableDynamicProvisioning bool            `json:"enableDynamicProvisioning"` // provisioners are asked for volumes; true
}

// readConfig reads JSON; no key may be unknown and no value out of range.
func readConfig(data []byte) (Config, error) {
	c := Config{PVClaimBinderSyncPeriod: metav1.Duration{Duration: 15 * time.Second}, EnableDynamicProvisioning: true}
	if len(data) > 0 {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return c, fmt.Errorf("configuration: %w", err)
		}
	}
	if p := c.PVClaimBinderSyncPeriod.Duration; p < time.Second || p > 24*time.Hour {
		return c, fmt.Errorf("configuration: pvClaimBinderSyncPeriod: %v is not from 1s to 24h", p)
	}
	return c, nil
}
