// Package keeper is the controller of Ingresses: it watches what the API has of them and
// keeps the proxy, their statuses and their events as that wants.
//
// # What it owns
//
// The IngressClass of the settings, which it makes unless there is one. The field
// status.loadBalancer of the Ingresses whose class names the controller pintle.dev/ingress.
//
// # How data passes through
//
//	informers → wake → routes.Compile → proxy.Use
//	                                 → certificates.Want
//	                                 → statuses (status.go), events (problems.go)
//
// One goroutine makes tables, another writes: an API that is slow holds up no table. Both
// look at what changed meanwhile afterwards. There is a rest between two tables, so that
// objects which change all the time cost a part of one processor at most.
//
// It must not import kernel.
package keeper
