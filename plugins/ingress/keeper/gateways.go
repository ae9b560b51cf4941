package keeper

import (
	"context"
	"net"
	"slices"
	"strconv"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/plugins/ingress/gateway"
	"pintle.dev/pintle/plugins/ingress/routes"
)

// prepareGateways reads the objects of Gateway API that are offered; nil: none are.
func (k *keeper) prepareGateways() *gateway.Prepared {
	objects := k.exchange.Objects()
	if objects == nil {
		return nil
	}
	s := gateway.Settings{HTTPPorts: portsOf(k.settings.HTTPAddresses), HTTPSPorts: portsOf(k.settings.HTTPSAddresses), MaxMatches: k.settings.MaxPathsPerNamespace, Patterns: &k.patterns}
	p := k.published.Load()
	if k.located = p != nil; k.located {
		s.Addresses = *p
	}
	if k.statuses != nil {
		s.Before = make(map[types.UID]bool, len(k.statuses.Gateways))
		for uid := range k.statuses.Gateways {
			s.Before[uid] = true
		}
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
	k.statuses = &told
}

// tellGateways tells what is to be written, once the table is in force and its ports are
// listened at. Statuses that were made without the addresses would lose those that they
// have; the next round, which publish asks for, has them.
func (k *keeper) tellGateways() {
	if k.statuses != nil && k.located {
		k.exchange.Tell(*k.statuses)
	}
}

// notListening says of all Gateways that they are not served.
func (k *keeper) notListening() {
	if k.statuses != nil && k.located {
		k.exchange.Tell(k.statuses.Unprogrammed("The plugin ingress does not listen at its ports: its own status says why"))
	}
}

// learn looks for the addresses before the first table is made.
func (k *keeper) learn(ctx context.Context) {
	if all, err := k.addresses(ctx); err == nil { // else the first write says why
		k.publish(all)
	}
}

// publish keeps the addresses for the statuses of Gateways. A node without any has not told
// them yet.
func (k *keeper) publish(all []networkingv1.IngressLoadBalancerIngress) {
	if len(all) == 0 && k.node != "" {
		return
	}
	now := []string{}
	for _, a := range all {
		now = append(now, a.IP)
	}
	if before := k.published.Load(); before == nil || !slices.Equal(*before, now) {
		k.published.Store(&now)
		k.again()
	}
}
