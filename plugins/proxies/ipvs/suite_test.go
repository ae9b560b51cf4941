package ipvs

import (
	"testing"

	"pintle.dev/pintle/plugins/proxies/packets"
	"pintle.dev/pintle/sdk/proxy"
)

// TestSuite: what every proxy has to do, with packets, in both families. It needs a kernel with
// IPVS: make test-vm.
func TestSuite(t *testing.T) {
	packets.Run(t, packets.Proxy{New: func() proxy.Proxy { return New() }, IPv6: true})
}
