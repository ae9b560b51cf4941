package corefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/coredns/coredns/plugin/pkg/parse"
	"github.com/miekg/dns"
)

// Config is what is configured under the plugin's name.
type Config struct {
	// Corefile is a whole Corefile; the keys after Port and MetricsPort are its own then.
	Corefile string `json:"corefile,omitempty"`
	// Port is where the node takes queries. 0: 10053, or a free one where that is taken.
	Port int `json:"port,omitempty"`
	// MetricsPort serves /metrics to pods; -1: not.
	MetricsPort int `json:"metricsPort,omitempty"`

	// UpstreamNameservers are asked for names outside of the cluster; none: those of
	// the machine's resolv.conf.
	UpstreamNameservers []string `json:"upstreamNameservers,omitempty"`
	// StubDomains are domains with nameservers of their own.
	StubDomains map[string][]string `json:"stubDomains,omitempty"`
	// Hosts are names with addresses of their own, as in /etc/hosts.
	Hosts map[string][]string `json:"hosts,omitempty"`
	// Pods says which names of pods by address there are: insecure (all), verified
	// (of pods that exist) or disabled.
	Pods string `json:"pods,omitempty"`
	// TTL of the cluster's records, in seconds.
	TTL *int `json:"ttl,omitempty"`
	// CacheTTL is the most that an answer is kept, in seconds; 0: nothing is kept.
	CacheTTL *int `json:"cacheTTL,omitempty"`
	// CacheSize is how many answers are kept, and as many that a name is not there.
	CacheSize int `json:"cacheSize,omitempty"`
	// MaxConcurrent bounds queries in flight, and those to each set of upstreams.
	MaxConcurrent int `json:"maxConcurrent,omitempty"`
	// Log logs every query.
	Log bool `json:"log,omitempty"`
}

// The defaults.
const (
	DefaultPort          = 10053
	DefaultMetricsPort   = 9153
	defaultTTL           = 30
	defaultCacheTTL      = 30
	defaultCacheSize     = 9984 // as CoreDNS's
	defaultMaxConcurrent = 1000 // as kubeadm's
	mostConcurrent       = 100_000
	mostCached           = 1 << 20
)

// The values of Pods.
const (
	podsInsecure = "insecure"
	podsVerified = "verified"
	podsDisabled = "disabled"
)

// Decode reads a configuration, fills in defaults and checks it. verified: the plugin
// may read pods.
func Decode(raw []byte, verified bool) (Config, error) {
	var c Config
	if len(raw) > 0 {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return c, fmt.Errorf("configuration: %w", err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return c, errors.New("configuration: there is something after it")
		}
	}
	if c.MetricsPort == 0 {
		c.MetricsPort = DefaultMetricsPort
	}
	if c.Pods == "" {
		if c.Pods = podsInsecure; verified {
			c.Pods = podsVerified
		}
	}
	if c.CacheSize == 0 {
		c.CacheSize = defaultCacheSize
	}
	if c.MaxConcurrent == 0 {
		c.MaxConcurrent = defaultMaxConcurrent
	}
	return c, c.check(verified)
}

func (c *Config) check(verified bool) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	within := func(key string, n, least, most int) {
		if n < least || n > most {
			fault("%s: want %d to %d, not %d", key, least, most, n)
		}
	}
	within("port", c.Port, 0, 65535)
	within("metricsPort", c.MetricsPort, -1, 65535)
	within("cacheSize", c.CacheSize, 1, mostCached)
	within("maxConcurrent", c.MaxConcurrent, 1, mostConcurrent)
	if c.TTL != nil {
		within("ttl", *c.TTL, 0, 3600)
	}
	if c.CacheTTL != nil {
		within("cacheTTL", *c.CacheTTL, 0, 3600)
	}
	switch {
	case c.Pods != podsInsecure && c.Pods != podsVerified && c.Pods != podsDisabled:
		fault("pods: want insecure, verified or disabled, not %q", c.Pods)
	case c.Pods == podsVerified && !verified:
		fault("pods: verified needs the right to read pods; name the plugin coredns-verified in node.dns, which asks for it")
	}
	for _, s := range c.UpstreamNameservers {
		if err := checkServer(s); err != nil {
			fault("upstreamNameservers: %w", err)
		}
	}
	for domain, servers := range c.StubDomains {
		if err := checkName(domain); err != nil {
			fault("stubDomains: %w", err)
		}
		if len(servers) == 0 {
			fault("stubDomains: %s has no nameserver", domain)
		}
		for _, s := range servers {
			if err := checkServer(s); err != nil {
				fault("stubDomains: %s: %w", domain, err)
			}
		}
	}
	for address, names := range c.Hosts {
		if _, err := netip.ParseAddr(address); err != nil {
			fault("hosts: %w", err)
		}
		for _, name := range names {
			if err := checkName(name); err != nil {
				fault("hosts: %s: %w", address, err)
			}
		}
	}
	return errors.Join(faults...)
}

// checkServer refuses what is no address of a nameserver, with or without a port.
func checkServer(s string) error {
	if strings.ContainsAny(s, " \t\r\n{}\"#$/") {
		return fmt.Errorf("%q is no address of a nameserver", s)
	}
	if _, err := parse.HostPort(s, "53"); err != nil {
		return fmt.Errorf("%q is no address of a nameserver", s)
	}
	return nil
}

// checkName refuses what is no name, or could be read as anything else in a Corefile.
func checkName(s string) error {
	if _, ok := dns.IsDomainName(s); !ok || s == "" || s == "." || strings.ContainsAny(s, " \t\r\n{}\"#$:/\\,()*") {
		return fmt.Errorf("%q is no domain", s)
	}
	return nil
}
