package server

import (
	"github.com/coredns/coredns/core/dnsserver"

	// The plugins of CoreDNS that a Corefile may name.
	_ "github.com/coredns/coredns/plugin/acl"
	_ "github.com/coredns/coredns/plugin/any"
	_ "github.com/coredns/coredns/plugin/autopath"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/bufsize"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/header"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metadata"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/minimal"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/shed"
	_ "github.com/coredns/coredns/plugin/template"

	"pintle.dev/pintle/plugins/dns/corefile"
)

// The order in which plugins see a query is that of this list: CoreDNS's own, and
// who may ask before all, and who may wait before those that ask others.
func init() {
	if err := dnsserver.SetDirectives([]string{
		"metadata", "bufsize", "bind", corefile.ClientsDirective, "ready", "health", "shed", "prometheus", "errors", "log",
		"any", "loadbalance", "rewrite", "autopath", "acl", "cache", "header", "minimal", "template", "hosts", "kubernetes", corefile.WaitingDirective, "loop", "forward",
	}); err != nil {
		panic(err) // a name is there twice
	}
}
