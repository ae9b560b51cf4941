package ipvs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pintle.dev/pintle/plugins/proxies/healthcheck"
)

// primary is the word for the node's own addresses among nodePortAddresses.
const primary = "primary"

// schedulers are those of IPVS; each but the table of the kernel is a module ip_vs_NAME.
var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh", "twos"}

// Config is the proxy's configuration. The keys are those of the section ipvs of kube-proxy's
// configuration, and those of the other proxies.
type Config struct {
	// Scheduler chooses endpoints: rr, wrr, lc, wlc, lblc, lblcr, dh, sh, sed, nq, fo, ovf, mh
	// or twos. Defaults to rr.
	Scheduler string `json:"scheduler,omitempty"`
	// ExcludeCIDRs are ranges of addresses whose virtual servers the proxy leaves alone.
	ExcludeCIDRs []string `json:"excludeCIDRs,omitempty"`
	// StrictARP keeps the machine from answering on other interfaces for addresses of
	// pintle-ipvs0: it sets arp_ignore to 1 and arp_announce to 2. Defaults to false.
	StrictARP bool `json:"strictARP,omitempty"`
	// TCPTimeout, TCPFinTimeout and UDPTimeout are how long IPVS keeps idle TCP connections,
	// those that got a FIN, and UDP flows. 0s, the default, leaves what the system has.
	TCPTimeout    string `json:"tcpTimeout,omitempty"`
	TCPFinTimeout string `json:"tcpFinTimeout,omitempty"`
	UDPTimeout    string `json:"udpTimeout,omitempty"`
	// MasqueradeAll gives every packet to a cluster IP the node's address. Defaults to false.
	MasqueradeAll bool `json:"masqueradeAll,omitempty"`
	// MasqueradeBit is the bit of the packet mark that asks for it, 0–31. Defaults to 14.
	MasqueradeBit *int `json:"masqueradeBit,omitempty"`
	// SyncPeriod is how often the proxy looks for what others changed, and mends it. Defaults
	// to 30s; 1s or more.
	SyncPeriod string `json:"syncPeriod,omitempty"`
	// MinSyncPeriod is the least time between two changes. Defaults to 0s.
	MinSyncPeriod string `json:"minSyncPeriod,omitempty"`
	// NodePortAddresses are the ranges of this machine's addresses that node ports are
	// served on, or the one word primary: the node's own addresses. Empty means all but those of
	// the loopback interface.
	NodePortAddresses []string `json:"nodePortAddresses,omitempty"`
	// HealthzBindAddress is where /healthz and /livez are served; empty: nowhere.
	// Defaults to 0.0.0.0:10256.
	HealthzBindAddress *string `json:"healthzBindAddress,omitempty"`

	sync, least time.Duration
	timeouts    timeouts
	excluded    []netip.Prefix
	nodePorts   []netip.Prefix // of NodePortAddresses; nil where it names none
	mark        uint32
}

// parse reads a configuration and checks all of it.
func parseConfig(data []byte) (Config, error) {
	var c Config
	if len(data) > 0 {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c); err != nil {
			return Config{}, fmt.Errorf("configuration of proxy ipvs: %w", err)
		}
	}
	for _, check := range []func(*Config) error{(*Config).checkScheduler, (*Config).checkTimes, (*Config).checkRanges, (*Config).checkMark} {
		if err := check(&c); err != nil {
			return Config{}, fmt.Errorf("configuration of proxy ipvs: %w", err)
		}
	}
	if err := healthcheck.SetAddress(&c.HealthzBindAddress); err != nil {
		return Config{}, fmt.Errorf("configuration of proxy ipvs: %w", err)
	}
	return c, nil
}

func (c *Config) checkScheduler() error {
	if c.Scheduler == "" {
		c.Scheduler = "rr"
	}
	if !slices.Contains(schedulers, c.Scheduler) {
		return fmt.Errorf("scheduler %q: want one of %s", c.Scheduler, strings.Join(schedulers, ", "))
	}
	return nil
}

func (c *Config) checkMark() error {
	bit := 14
	if c.MasqueradeBit != nil {
		bit = *c.MasqueradeBit
	}
	if bit < 0 || bit > 31 {
		return fmt.Errorf("masqueradeBit %d: want 0 to 31", bit)
	}
	c.mark = 1 << bit
	return nil
}

func (c *Config) checkTimes() error {
	for _, t := range []struct {
		name, text  string
		least, most time.Duration
		to          *time.Duration
	}{
		{"syncPeriod", c.SyncPeriod, time.Second, math.MaxInt64, &c.sync},
		{"minSyncPeriod", c.MinSyncPeriod, 0, math.MaxInt64, &c.least},
		// The kernel takes seconds in 31 bits, as ticks.
		{"tcpTimeout", c.TCPTimeout, 0, maxTimeout, &c.timeouts.tcp},
		{"tcpFinTimeout", c.TCPFinTimeout, 0, maxTimeout, &c.timeouts.tcpFin},
		{"udpTimeout", c.UDPTimeout, 0, maxTimeout, &c.timeouts.udp},
	} {
		if t.text == "" {
			continue
		}
		d, err := time.ParseDuration(t.text)
		if err != nil || d < t.least || d > t.most {
			return fmt.Errorf("%s %q: want a duration from %s to %s", t.name, t.text, t.least, t.most)
		}
		*t.to = d
	}
	if c.sync == 0 {
		c.sync = 30 * time.Second
	}
	if c.least > c.sync {
		return fmt.Errorf("minSyncPeriod %q: want at most syncPeriod, which is %s", c.MinSyncPeriod, c.sync)
	}
	return nil
}

// maxTimeout is the longest time that every kernel takes.
const maxTimeout = 24 * 24 * time.Hour

func (c *Config) checkRanges() error {
	for _, text := range c.ExcludeCIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("excludeCIDRs: %q: want a range such as 192.0.2.0/24", text)
		}
		c.excluded = append(c.excluded, p.Masked())
	}
	for _, text := range c.NodePortAddresses {
		if text == primary {
			if len(c.NodePortAddresses) > 1 {
				return fmt.Errorf("nodePortAddresses: %s stands alone", primary)
			}
			break
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("nodePortAddresses: %q: want a range such as 192.0.2.0/24, or %s", text, primary)
		}
		c.nodePorts = append(c.nodePorts, p.Masked())
	}
	return nil
}

// everyAddress reports whether node ports are served on every address of the machine.
func (c Config) everyAddress() bool { return len(c.NodePortAddresses) == 0 }

// excludes reports whether virtual servers at an address are left alone.
func (c Config) excludes(a netip.Addr) bool {
	return slices.ContainsFunc(c.excluded, func(p netip.Prefix) bool { return p.Contains(a) })
}
