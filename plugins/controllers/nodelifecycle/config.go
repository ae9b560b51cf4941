package nodelifecycle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config has the names and defaults of kube-controller-manager's configuration
// of this controller (003 NC-3 to NC-7). A key that is left out has its
// default. Rates are nodes a second and zone.
type Config struct {
	NodeMonitorPeriod         metav1.Duration `json:"nodeMonitorPeriod"`         // between two looks at all nodes; 5s
	NodeMonitorGracePeriod    metav1.Duration `json:"nodeMonitorGracePeriod"`    // a node may be silent; 50s
	NodeStartupGracePeriod    metav1.Duration `json:"nodeStartupGracePeriod"`    // a node may take for its first heartbeat; 1m
	NodeEvictionRate          float64         `json:"nodeEvictionRate"`          // 0.1
	SecondaryNodeEvictionRate float64         `json:"secondaryNodeEvictionRate"` // of a large zone that is partly down; 0.01
	LargeClusterSizeThreshold int             `json:"largeClusterSizeThreshold"` // a zone of more nodes is large; 50
	UnhealthyZoneThreshold    float64         `json:"unhealthyZoneThreshold"`    // part of a zone's nodes from which it is partly down; 0.55
}

func defaults() Config {
	seconds := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
	return Config{
		NodeMonitorPeriod: seconds(5), NodeMonitorGracePeriod: seconds(50), NodeStartupGracePeriod: seconds(60),
		NodeEvictionRate: 0.1, SecondaryNodeEvictionRate: 0.01, LargeClusterSizeThreshold: 50, UnhealthyZoneThreshold: 0.55,
	}
}

// readConfig reads JSON; no key may be unknown and no value out of range.
func readConfig(data []byte) (Config, error) {
	c := defaults()
	if len(data) > 0 {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return c, fmt.Errorf("configuration: %w", err)
		}
	}
	for _, d := range []struct {
		key   string
		value metav1.Duration
	}{
		{"nodeMonitorPeriod", c.NodeMonitorPeriod}, {"nodeMonitorGracePeriod", c.NodeMonitorGracePeriod},
		{"nodeStartupGracePeriod", c.NodeStartupGracePeriod},
	} {
		if d.value.Duration < 100*time.Millisecond {
			return c, fmt.Errorf("configuration: %s: %s is less than 100ms", d.key, d.value.Duration)
		}
	}
	for _, r := range []struct {
		key   string
		value float64
	}{{"nodeEvictionRate", c.NodeEvictionRate}, {"secondaryNodeEvictionRate", c.SecondaryNodeEvictionRate}} {
		if r.value < 0 || math.IsNaN(r.value) {
			return c, fmt.Errorf("configuration: %s: %v is less than 0", r.key, r.value)
		}
	}
	if c.LargeClusterSizeThreshold < 0 {
		return c, fmt.Errorf("configuration: largeClusterSizeThreshold: %d is less than 0", c.LargeClusterSizeThreshold)
	}
	if !(c.UnhealthyZoneThreshold > 0 && c.UnhealthyZoneThreshold <= 1) {
		return c, fmt.Errorf("configuration: unhealthyZoneThreshold: %v is not above 0 and at most 1", c.UnhealthyZoneThreshold)
	}
	return c, nil
}

// evictionRate is the rate of a zone in which ready nodes of all are ready.
func (c Config) evictionRate(ready, all int) rate.Limit {
	down := all - ready
	if ready == 0 || down <= 2 || float64(down)/float64(all) < c.UnhealthyZoneThreshold {
		return rate.Limit(c.NodeEvictionRate) // wholly down: its work should move elsewhere
	}
	if all > c.LargeClusterSizeThreshold {
		return rate.Limit(c.SecondaryNodeEvictionRate)
	}
	return 0
}
