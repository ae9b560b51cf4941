package keeper

import (
	"net"
	"slices"
	"strconv"

	networkingv1 "k8s.io/api/networking/v1"

	"pintle.dev/pintle/plugins/ingress/gateway"
	"pintle.dev/pintle/plugins/ingress/routes"
)

// prepareGateways reads the objects of Gateway API that are offered; nil: none are.
func (k *keeper) prepareGateways() *gateway.Prepared {
	objects := k.exchange.Objects()
	if objects == nil {
		return nil
	}
	s := gateway.Settings{HTTPPorts: portsOf(k.settings.HTTPAddresses), HTTPSPorts: portsOf(k.settings.HTTPSAddresses), MaxMatches: k.settings.MaxPathsPerNamespace}
	if p := k.published.Load(); p != nil {
		s.Addresses = *p
	}
	return gateway.Prepare(objects, s)
}

func portsOf(addresses []string) map[int]bool {
	out := map[int]bool{}
	for _, a := range addresses {
		if _, port, err := net.SplitHostPort(a); err == nil {
			if n, err := strconv.Atoi(port); err == nil {
				out[n] = true
			}
		}
	}
	return out
}

// compileGateways gives a table the listeners of Gateways, and tells what is to be written.
func (k *keeper) compileGateways(p *gateway.Prepared, out *routes.Output, wanted map[routes.SecretName]bool) {
	listeners, told := p.Compile(gateway.World{
		Owns: out.Table.Owns, Backend: out.Backend, MayRead: out.MayRead,
		Certificate: func(name routes.SecretName) (bool, error) {
			c, err := k.secrets.Get(name)
			return c != nil, err
		},
	})
	for name := range told.Secrets {
		wanted[name] = true
	}
	out.Table.Attach(listeners)
	k.exchange.Tell(told)
}

// publish keeps the addresses for the statuses of Gateways.
func (k *keeper) publish(all []networkingv1.IngressLoadBalancerIngress) {
	now := []string{}
	for _, a := range all {
		now = append(now, a.IP)
	}
	if before := k.published.Load(); before == nil || !slices.Equal(*before, now) {
		k.published.Store(&now)
		k.again()
	}
}
