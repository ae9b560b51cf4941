// Package healthcheck answers load balancers: on the healthCheckNodePort of each
// service whether this node has endpoints of it, and on one address of the proxy
// whether the proxy keeps up (/livez) and the node takes traffic (/healthz). The
// answers are kube-proxy's.
//
// A proxy calls Queued when it has a change, Sync with what it knows and Updated
// when its data path shows it. ServeOn says where node ports are served, where that
// is not everywhere: health checks of services are answered there alone. Everybody
// who reaches the node can ask: answers name a service and count its endpoints, and
// each connection ends after one.
//
// It must not import kernel.
package healthcheck
