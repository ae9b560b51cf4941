package nftables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"pintle.dev/pintle/plugins/proxies/healthcheck"
)

// primary is the word for the node's own addresses among nodePortAddresses.
const primary = "primary"

// Config is the proxy's configuration. The keys are those of the section nftables of
// kube-proxy's configuration, and those of the other proxies.
type Config struct {
	// MasqueradeAll gives every packet to a cluster IP the node's address. Defaults to
	// false (requirement FIL-15).
	MasqueradeAll bool `json:"masqueradeAll,omitempty"`
	// MasqueradeBit is the bit of the packet mark that asks for it, 0–31. Defaults to 14.
	MasqueradeBit *int `json:"masqueradeBit,omitempty"`
	// SyncPeriod is how often the proxy asks whether somebody changed its tables, and
	// mends them. Defaults to 30s; 1s or more.
	SyncPeriod string `json:"syncPeriod,omitempty"`
	// MinSyncPeriod is the least time between two changes of the tables. Defaults to 0s:
	// a change is a few elements.
	MinSyncPeriod string `json:"minSyncPeriod,omitempty"`
	// NodePortAddresses are the ranges of this machine's addresses that node ports are
	// served on, or the one word primary: the node's own addresses. Empty means all.
	NodePortAddresses []string `json:"nodePortAddresses,omitempty"`
	// LocalhostNodePorts makes node ports reachable at 127.0.0.1, where nodePortAddresses
	// is empty. Defaults to true.
	LocalhostNodePorts *bool `json:"localhostNodePorts,omitempty"`

	// HealthzBindAddress is where /healthz and /livez are served; empty: nowhere.
	// Defaults to 0.0.0.0:10256.
	HealthzBindAddress *string `json:"healthzBindAddress,omitempty"`

	sync, least time.Duration
	nodePorts   []netip.Prefix // of NodePortAddresses; nil where it names none
	mark        uint32
}

func parseConfig(data []byte) (Config, error) {
	var c Config
	fail := func(format string, args ...any) (Config, error) {
		return Config{}, fmt.Errorf("configuration of proxy nftables: "+format, args...)
	}
	if len(data) > 0 {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c); err != nil {
			return fail("%w", err)
		}
	}
	bit := 14
	if c.MasqueradeBit != nil {
		bit = *c.MasqueradeBit
	}
	if bit < 0 || bit > 31 {
		return fail("masqueradeBit %d: want 0 to 31", bit)
	}
	c.mark = 1 << bit
	if c.LocalhostNodePorts == nil {
		yes := true
		c.LocalhostNodePorts = &yes
	}
	if err := healthcheck.SetAddress(&c.HealthzBindAddress); err != nil {
		return fail("%w", err)
	}
	c.sync = 30 * time.Second
	if c.SyncPeriod != "" {
		d, err := time.ParseDuration(c.SyncPeriod)
		if err != nil || d < time.Second {
			return fail("syncPeriod %q: want a duration of 1s or more", c.SyncPeriod)
		}
		c.sync = d
	}
	if c.MinSyncPeriod != "" {
		d, err := time.ParseDuration(c.MinSyncPeriod)
		if err != nil || d < 0 || d > c.sync {
			return fail("minSyncPeriod %q: want a duration from 0s to syncPeriod, which is %s", c.MinSyncPeriod, c.sync)
		}
		c.least = d
	}
	for _, text := range c.NodePortAddresses {
		if text == primary {
			if len(c.NodePortAddresses) > 1 {
				return fail("nodePortAddresses: %s stands alone", primary)
			}
			break
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fail("nodePortAddresses: %q: want a range such as 192.0.2.0/24, or %s", text, primary)
		}
		c.nodePorts = append(c.nodePorts, p.Masked())
	}
	return c, nil
}

// everyAddress reports whether node ports are served on every address of the machine.
func (c Config) everyAddress() bool { return len(c.NodePortAddresses) == 0 }
