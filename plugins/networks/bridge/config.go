package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Name is the plugin's.
const Name = "bridge"

// The values of Config.Backend.
const (
	// Auto reaches nodes on one link by routes, and others through the tunnel.
	Auto = "auto"
	// HostGW reaches nodes on one link, and refuses others.
	HostGW = "host-gw"
	// VXLAN reaches all nodes through the tunnel.
	VXLAN = "vxlan"
	// WireGuard reaches all nodes through an encrypted tunnel.
	WireGuard = "wireguard"
)

// Config is the plugin's configuration.
type Config struct {
	// Backend is auto, host-gw, vxlan or wireguard. Defaults to auto.
	Backend string `json:"backend,omitempty"`
	// MTU of pods' interfaces, 1280 to 65535 bytes; 0: that of the interface that has the
	// node's address, less the tunnel's header where backend is vxlan or wireguard.
	MTU int `json:"mtu,omitempty"`
	// VNI is the number of the tunnel's network, 1 to 16777215. Defaults to 1.
	VNI int `json:"vni,omitempty"`
	// Port is the tunnel's UDP port, 1 to 65535. Defaults to 8472, which Linux uses, and 51820 of wireguard.
	Port int `json:"port,omitempty"`
	// MasqueradeBit is the bit of the packet mark by which the service proxy asks for
	// masquerading, 0 to 31. Defaults to 14, as the proxies'.
	MasqueradeBit *int `json:"masqueradeBit,omitempty"`
	// CheckInterval is how often the plugin looks whether its routes are as they should be,
	// as a duration of 1s or more. Defaults to 5s.
	CheckInterval string `json:"checkInterval,omitempty"`

	check time.Duration
	mark  uint32
}

// Limits of what is configured.
const (
	leastMTU = 1280 // that of IPv6
	mostMTU  = 65535
	mostVNI  = 1<<24 - 1
	mostPort = 65535
)

func parseConfig(data []byte) (Config, error) {
	c := Config{Backend: Auto, VNI: 1, check: 5 * time.Second}
	fail := func(format string, args ...any) (Config, error) {
		return Config{}, fmt.Errorf("configuration of network "+Name+": "+format, args...)
	}
	if len(data) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&c); err != nil {
			return fail("%w", err)
		}
	}
	switch {
	case c.Port != 0:
	case c.Backend == WireGuard:
		c.Port = 51820
	default:
		c.Port = 8472
	}
	bit := 14
	if c.MasqueradeBit != nil {
		bit = *c.MasqueradeBit
	}
	switch {
	case c.Backend != Auto && c.Backend != HostGW && c.Backend != VXLAN && c.Backend != WireGuard:
		return fail("backend %q: want %s, %s, %s or %s", c.Backend, Auto, HostGW, VXLAN, WireGuard)
	case c.MTU != 0 && (c.MTU < leastMTU || c.MTU > mostMTU):
		return fail("mtu %d: want %d to %d, or 0", c.MTU, leastMTU, mostMTU)
	case c.VNI < 1 || c.VNI > mostVNI:
		return fail("vni %d: want 1 to %d", c.VNI, mostVNI)
	case c.Port < 1 || c.Port > mostPort:
		return fail("port %d: want 1 to %d", c.Port, mostPort)
	case bit < 0 || bit > 31:
		return fail("masqueradeBit %d: want 0 to 31", bit)
	}
	c.mark = 1 << bit
	if c.CheckInterval != "" {
		d, err := time.ParseDuration(c.CheckInterval)
		if err != nil || d < time.Second {
			return fail("checkInterval %q: want a duration of 1s or more", c.CheckInterval)
		}
		c.check = d
	}
	return c, nil
}
