// Dns is the bundle of the DNS server of a node: CoreDNS.
package main

import (
	"os"
	"runtime/debug"

	"pintle.dev/pintle/plugins/dns/server"
	"pintle.dev/pintle/sdk/proxy"
)

func main() {
	// It holds little, and what it throws away is small: memory counts for more.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	proxy.Serve(map[string]proxy.Proxy{
		"coredns":          server.New(false),
		"coredns-verified": server.New(true),
	})
}
