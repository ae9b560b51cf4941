// Package aggregation makes other API servers part of this one: an APIService
// says that a group version is served behind a Service, and requests for it go
// there.
//
// # What it owns
//
// Which requests are another server's (routes.go), and how they go there: with the
// front-proxy's client certificate and the user in X-Remote-* headers, without the
// client's own credentials (proxy.go). The group list of /apis and of groups that
// others serve (groups.go); OpenAPI of others beside the kernel's (openapi.go). The
// APIServices of built-in groups (builtin.go) and of custom resources (crds.go).
// ConfigMap kube-system/extension-apiserver-authentication is in package trust below.
//
// Availability, automatic registration, aggregated discovery and the OpenAPI
// documents of others are done by the controllers of k8s.io/kube-aggregator. Those
// that deal with other servers start with the first APIService that names a Service,
// with their informers; a cluster without one has none of them.
//
// # What it promises
//
// A group version that the kernel serves itself always stays with it. A request that
// has come through this cluster's proxy once is not sent out again (Via). A redirect
// of the other server is refused. Documents of others are read up to a bound, and what
// of them concerns other group versions than their own is left out. Nothing is started
// that Run does not wait for, but for the queues' workers of kube-aggregator, which end
// with the context.
//
// A plugin may serve a group version (plugins.go): its APIService has a label and no
// Service. Requests go to its socket by a transport that Config.Plugins has. What that
// knows of it counts, not the label, and not the condition, which another kernel wrote.
//
// It must not import kernel/api or what is beside it there, nor a plugin.
//
// Data passes: authenticated, authorized request → Before → proxy → other server;
// APIService objects → informer (straight from the store) → routes.
//
// Caveats: availability is checked by each of several kernels, and written only when
// it differs from what is stored, as kube-apiservers do. Where kernels reach a server
// differently its condition changes back and forth at the pace of their checks.
package aggregation
