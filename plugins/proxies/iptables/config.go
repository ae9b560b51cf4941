package iptables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"pintle.dev/pintle/plugins/proxies/healthcheck"
)

// Config is the proxy's configuration.
type Config struct {
	// MasqueradeAll gives every packet to a cluster IP the node's address.
	// Defaults to false (requirement FIL-15).
	MasqueradeAll bool `json:"masqueradeAll,omitempty"`
	// MasqueradeBit is the bit of the packet mark that asks for it, 0–31.
	// Defaults to 14.
	MasqueradeBit *int `json:"masqueradeBit,omitempty"`
	// ResyncPeriod is the time after which all rules are loaded anew, in case
	// somebody else changed them. Defaults to 30s.
	ResyncPeriod string `json:"resyncPeriod,omitempty"`
	// LocalhostNodePorts makes node ports reachable at 127.0.0.1. Defaults to true.
	LocalhostNodePorts *bool `json:"localhostNodePorts,omitempty"`

	// HealthzBindAddress is where /healthz and /livez are served; empty: nowhere.
	// Defaults to 0.0.0.0:10256.
	HealthzBindAddress *string `json:"healthzBindAddress,omitempty"`

	resync time.Duration
}

func parseConfig(data []byte) (Config, error) {
	var c Config
	if len(data) > 0 {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c); err != nil {
			return c, fmt.Errorf("read configuration of proxy iptables: %w", err)
		}
	}
	if c.MasqueradeBit == nil {
		bit := 14
		c.MasqueradeBit = &bit
	}
	if *c.MasqueradeBit < 0 || *c.MasqueradeBit > 31 {
		return c, fmt.Errorf("configuration of proxy iptables: masqueradeBit %d: want 0 to 31", *c.MasqueradeBit)
	}
	if c.LocalhostNodePorts == nil {
		yes := true
		c.LocalhostNodePorts = &yes
	}
	if err := healthcheck.SetAddress(&c.HealthzBindAddress); err != nil {
		return c, fmt.Errorf("configuration of proxy iptables: %w", err)
	}
	c.resync = 30 * time.Second
	if c.ResyncPeriod != "" {
		d, err := time.ParseDuration(c.ResyncPeriod)
		if err != nil || d < time.Second {
			return c, fmt.Errorf("configuration of proxy iptables: resyncPeriod %q: want a duration of 1s or more", c.ResyncPeriod)
		}
		c.resync = d
	}
	return c, nil
}

// mark is the masquerade mark as iptables writes it: value/mask.
func (c Config) mark() string {
	v := uint32(1) << *c.MasqueradeBit
	return fmt.Sprintf("%#x/%#x", v, v)
}
