package nodepart

import (
	"net"
	"os"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"pintle.dev/pintle/kernel/config"
)

// Name is the configured name of the node, or the machine's.
func Name(cfg *config.Config) string {
	if cfg.Node.Name != "" {
		return cfg.Node.Name
	}
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return strings.ToLower(name)
}

// Address is the configured address of the node, or the one of the default
// route, or loopback on a machine without a network.
func Address(cfg *config.Config) net.IP {
	if ip := net.ParseIP(cfg.Node.Address); ip != nil {
		return ip
	}
	if ip, err := utilnet.ChooseHostInterface(); err == nil {
		return ip
	}
	return net.IPv4(127, 0, 0, 1)
}
