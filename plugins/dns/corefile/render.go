package corefile

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Node is what the node says of where the server runs.
type Node struct {
	Address   string   // it listens there
	Port      int      // and there
	Clients   []string // addresses and ranges that it answers
	Domain    string   // of the cluster
	Upstreams []string // of the machine, for names outside of the cluster
	Verified  bool     // it may read pods
}

// The directives that bound who is answered, and how many at a time, and how many wait for
// other nameservers; and the address by which the kubernetes plugin finds the API: what is
// dialled is a socket.
const (
	ClientsDirective = "clients"
	WaitingDirective = "waiting"
	APIServer        = "http://pintle.local"
)

// Render is the whole Corefile.
func Render(c *Config, n *Node) (string, error) {
	if c.Corefile != "" {
		return adapt(c, n)
	}
	return fromKeys(c, n)
}

// everywhere are the lines of each server block.
func everywhere(c *Config, n *Node) []string {
	return []string{
		"bind " + n.Address,
		ClientsDirective + " " + strconv.Itoa(c.MaxConcurrent) + " " + strings.Join(n.Clients, " "),
		// The rest is for queries that no other nameserver has to answer.
		WaitingDirective + " " + strconv.Itoa(max(1, c.MaxConcurrent*3/4)),
		"shed",
	}
}

func fromKeys(c *Config, n *Node) (string, error) {
	upstreams := c.UpstreamNameservers
	if len(upstreams) == 0 {
		upstreams = n.Upstreams
	}
	var b strings.Builder
	block := func(zone string, lines ...string) {
		fmt.Fprintf(&b, "%s:%d {\n", zone, n.Port)
		for _, line := range lines {
			fmt.Fprintf(&b, "\t%s\n", line)
		}
		b.WriteString("}\n")
	}
	shared := append(everywhere(c, n),
		// One line a minute for what goes on failing, not one a query.
		"errors {\n\t\tconsolidate 1m \".*\" warning\n\t}",
		"prometheus "+metricsAddress,
	)
	if c.Log {
		shared = append(shared, "log")
	}
	cache := func(disabled ...string) []string {
		seconds := value(c.CacheTTL, defaultCacheTTL)
		if seconds == 0 {
			return nil
		}
		text := fmt.Sprintf("cache %d {\n\t\tsuccess %d\n\t\tdenial %d\n", seconds, c.CacheSize, c.CacheSize)
		for _, zone := range disabled {
			// The cluster's names are answered from memory as it is.
			text += fmt.Sprintf("\t\tdisable success %s\n\t\tdisable denial %s\n", zone, zone)
		}
		return []string{text + "\t}"}
	}
	forward := func(servers []string) string {
		return fmt.Sprintf("forward . %s {\n\t\tmax_concurrent %d\n\t}", strings.Join(servers, " "), c.MaxConcurrent)
	}
	root := slices.Clone(shared)
	if len(c.Hosts) > 0 {
		text := "hosts {\n"
		for _, address := range slices.Sorted(maps.Keys(c.Hosts)) {
			text += "\t\t" + address + " " + strings.Join(c.Hosts[address], " ") + "\n"
		}
		root = append(root, text+"\t\tfallthrough\n\t}")
	}
	root = append(root, fmt.Sprintf("kubernetes %s in-addr.arpa ip6.arpa {\n\t\tendpoint %s\n\t\tpods %s\n\t\tfallthrough in-addr.arpa ip6.arpa\n\t\tttl %d\n\t}",
		n.Domain, APIServer, c.Pods, value(c.TTL, defaultTTL)))
	if len(upstreams) > 0 {
		root = append(append(root, cache(n.Domain)...), forward(upstreams), "loop")
	}
	block(".", append(root, "loadbalance")...)
	for _, domain := range slices.Sorted(maps.Keys(c.StubDomains)) {
		lines := append(slices.Clone(shared), cache()...)
		block(domain, append(lines, forward(c.StubDomains[domain]))...)
	}
	return b.String(), nil
}

func value(p *int, otherwise int) int {
	if p == nil {
		return otherwise
	}
	return *p
}

// metricsAddress is where CoreDNS's own server of metrics listens, which nobody is
// told of: the plugin serves them to those that it answers.
const metricsAddress = "127.0.0.1:0"

// onLoopback is an address with the machine itself in the place of every interface.
func onLoopback(address, port string) (string, error) {
	if address == "" {
		return net.JoinHostPort("127.0.0.1", port), nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}
