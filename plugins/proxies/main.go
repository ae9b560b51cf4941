// Proxies is the bundle of the service proxies: userspace and iptables.
package main

import (
	"pintle.dev/pintle/plugins/proxies/iptables"
	"pintle.dev/pintle/plugins/proxies/userspace"
	"pintle.dev/pintle/sdk/proxy"
)

func main() {
	proxy.Serve(map[string]proxy.Proxy{
		"iptables":  iptables.New(),
		"userspace": userspace.New(),
	})
}
