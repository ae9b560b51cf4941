package nftables

import (
	"testing"

	"pintle.dev/pintle/plugins/proxies/packets"
	"pintle.dev/pintle/sdk/proxy"
)

// TestSuite: what every proxy has to do, with packets, in both families.
func TestSuite(t *testing.T) {
	packets.Run(t, packets.Proxy{New: func() proxy.Proxy { return New() }, IPv6: true})
}

// TestDrawnServices: services of all kinds, as they are drawn, are answered as Kubernetes
// documents it.
func TestDrawnServices(t *testing.T) {
	packets.RunDrawn(t, packets.Proxy{New: func() proxy.Proxy { return New() }, IPv6: true})
}

// TestUDPFlow: a flow that the kernel knows follows changes of its service.
func TestUDPFlow(t *testing.T) {
	packets.RunUDPFlow(t, packets.Proxy{New: func() proxy.Proxy { return New() }, IPv6: true})
}

// TestMalformedPackets: packets that no honest client sends harm nobody.
func TestMalformedPackets(t *testing.T) {
	packets.RunMalformed(t, packets.Proxy{New: func() proxy.Proxy { return New() }, IPv6: true})
}
