// Package serviceresolver finds where a Service is reached that webhooks and other
// API servers are named by.
//
// # What it owns
//
// The choice between a Service's cluster IP and one of its endpoints. Beside a
// service proxy it is the cluster IP, as kube-apiserver's default. Where none runs,
// nothing answers there: it is a ready endpoint of the EndpointSlices, as with
// kube-apiserver's --enable-aggregator-routing. Services of type ExternalName are
// their name in both cases, as webhooks of older kernels had it.
//
// # How data passes through
//
// Nothing is kept: each resolution reads the objects as they are. Webhooks resolve
// once a connection, the aggregator once a request.
//
// It must not import other packages of the kernel.
package serviceresolver
