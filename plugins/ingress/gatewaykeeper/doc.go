// Package gatewaykeeper is the controller gateway: it watches the objects of Gateway API,
// offers them to the controller ingress, which has the proxy, and writes their statuses.
//
// # What it owns
//
// The GatewayClass of its settings, which it makes unless there is one, and the statuses of
// GatewayClasses, Gateways, HTTPRoutes and GRPCRoutes as far as they are of the controller
// pintle.dev/gateway. It waits as long as the cluster has no CustomResourceDefinitions of
// Gateway API.
//
// # How data passes through
//
//	informers → Exchange → controller ingress: gateway.Prepare, Compile → Exchange → statuses
//
// It must not import kernel.
package gatewaykeeper
