package sandbox

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/container"
)

// Limits of a resolver file that Kubernetes keeps to.
const (
	maxNameservers  = 3
	maxSearches     = 32
	maxSearchLength = 2048
)

// Files with a machine's DNS servers: the one that every program reads, and the one in which systemd-resolved has those
// that it asks itself, where the first names the machine's own stub.
const (
	etcResolvConf     = "/etc/resolv.conf"
	systemdResolvConf = "/run/systemd/resolve/resolv.conf"
)

// Resolver is how pods of a node find names.
type Resolver struct {
	ClusterDNS    []string
	ClusterDomain string
	// Absent says that the cluster has no DNS now, whatever ClusterDNS is; nil: it has.
	Absent func() bool
	// ResolvConf is the machine's resolver file. Empty: /etc/resolv.conf, or systemd's if that one names servers on
	// loopback alone, which nobody in a pod can reach.
	ResolvConf string
	// Simulated: the node's pods run nothing that asks for names.
	Simulated bool
}

// Warning is for an event about a pod's resolver.
type Warning struct{ Reason, Message string }

// MissingClusterDNS is the reason of the warning about a pod that wants the cluster's DNS where there is none.
const MissingClusterDNS = "MissingClusterDNS"

// For makes a pod's resolver from its dnsPolicy and dnsConfig. Warnings say which limits were exceeded, and that there
// is no cluster DNS for a pod that wants it.
func (r Resolver) For(pod *corev1.Pod) (*runtimeapi.DNSConfig, []Warning, error) {
	var warnings []Warning
	warn := func(reason, format string, args ...any) {
		warnings = append(warnings, Warning{reason, fmt.Sprintf(format, args...)})
	}
	file := r.ResolvConf
	if file == "" {
		file = reachable(etcResolvConf, systemdResolvConf)
	}
	host, err := readResolvConf(file)
	if err != nil {
		return nil, nil, err
	}
	config := &runtimeapi.DNSConfig{}
	policy := pod.Spec.DNSPolicy
	if policy == corev1.DNSClusterFirst && pod.Spec.HostNetwork {
		policy = corev1.DNSDefault
	}
	if policy == corev1.DNSClusterFirstWithHostNet || policy == "" {
		policy = corev1.DNSClusterFirst
	}
	switch policy {
	case corev1.DNSNone:
	case corev1.DNSClusterFirst:
		if len(r.ClusterDNS) == 0 || r.Absent != nil && r.Absent() {
			config = host
			if !r.Simulated {
				warn(MissingClusterDNS, "pod: %q. kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to %q policy.",
					container.Format(pod), corev1.DNSClusterFirst, corev1.DNSDefault)
			}
			break
		}
		config.Servers = slices.Clone(r.ClusterDNS)
		config.Searches = []string{pod.Namespace + ".svc." + r.ClusterDomain, "svc." + r.ClusterDomain, r.ClusterDomain}
		config.Searches = unique(append(config.Searches, host.Searches...))
		config.Options = []string{"ndots:5"}
	case corev1.DNSDefault:
		config = host
	default:
		return nil, nil, fmt.Errorf("invalid DNSPolicy=%v", pod.Spec.DNSPolicy)
	}
	if d := pod.Spec.DNSConfig; d != nil {
		config.Servers = unique(append(config.Servers, d.Nameservers...))
		config.Searches = unique(append(config.Searches, d.Searches...))
		config.Options = mergeOptions(config.Options, d.Options)
	}
	if len(config.Servers) > maxNameservers {
		config.Servers = config.Servers[:maxNameservers]
		warn("DNSConfigForming", "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: %s", strings.Join(config.Servers, " "))
	}
	if n := len(config.Searches); n > maxSearches || len(strings.Join(config.Searches, " ")) > maxSearchLength {
		config.Searches = config.Searches[:min(n, maxSearches)]
		for len(strings.Join(config.Searches, " ")) > maxSearchLength {
			config.Searches = config.Searches[:len(config.Searches)-1]
		}
		warn("DNSConfigForming", "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: %s", strings.Join(config.Searches, " "))
	}
	return config, warnings, nil
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// mergeOptions lets a pod's option replace the one of the same name.
func mergeOptions(base []string, extra []corev1.PodDNSConfigOption) []string {
	name := func(option string) string { n, _, _ := strings.Cut(option, ":"); return n }
	out := slices.Clone(base)
	for _, o := range extra {
		text := o.Name
		if o.Value != nil && *o.Value != "" {
			text += ":" + *o.Value
		}
		if i := slices.IndexFunc(out, func(have string) bool { return name(have) == o.Name }); i >= 0 {
			out[i] = text
		} else {
			out = append(out, text)
		}
	}
	return out
}

// reachable is the file etc, or other where etc names servers on loopback alone and other is there.
func reachable(etc, other string) string {
	config, err := readResolvConf(etc)
	if err != nil || len(config.Servers) == 0 {
		return etc
	}
	for _, server := range config.Servers {
		if ip := net.ParseIP(server); ip == nil || !ip.IsLoopback() {
			return etc
		}
	}
	if _, err := os.Stat(other); err != nil {
		return etc
	}
	return other
}

// readResolvConf reads nameserver, search and options; a missing file is an empty resolver.
func readResolvConf(path string) (*runtimeapi.DNSConfig, error) {
	config := &runtimeapi.DNSConfig{}
	if path == "" {
		return config, nil
	}
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return config, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read resolver configuration: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			config.Servers = append(config.Servers, fields[1])
		case "search":
			config.Searches = nil
			for _, s := range fields[1:] {
				if s != "." {
					s = strings.TrimSuffix(s, ".")
				}
				config.Searches = append(config.Searches, s)
			}
		case "options":
			config.Options = append(config.Options, fields[1:]...)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read resolver configuration %s: %w", path, err)
	}
	return config, nil
}
