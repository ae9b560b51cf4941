package server

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"github.com/miekg/dns"
)

// resolvConf is the machine's.
const resolvConf = "/etc/resolv.conf"

// upstreams are the nameservers of the machine but for those that are this server
// again: a query would go round. A machine without the file has none.
func upstreams(file string, own ranges, log *slog.Logger) ([]string, error) {
	conf, err := dns.ClientConfigFromFile(file)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("nameservers of the machine: %w", err)
	}
	var out []string
	for _, s := range conf.Servers {
		a, err := netip.ParseAddr(s)
		if err != nil {
			log.Warn("no nameserver: it is no address", "file", file, "server", s)
			continue
		}
		if own.contain(a) {
			log.Warn("no nameserver: it is the cluster's DNS itself", "file", file, "server", s)
			continue
		}
		out = append(out, s)
	}
	return out, nil
}
