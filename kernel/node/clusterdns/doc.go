// Package clusterdns keeps the cluster's DNS of a node: it starts the plugin that
// answers, looks after it, and publishes it as an endpoint of the service
// kube-system/kube-dns.
//
// # What it owns
//
// The service, which has no selector, and of each node one EndpointSlice with the
// node's address. The slice goes with the node's DNS, and at the latest with the Node.
// The service stays. One that selects pods is somebody else's: nothing is published then.
// A machine without a kernel may write neither. There the node's own service proxy leads
// pods to the plugin (serviceproxy.Own), and nothing is published.
//
// # How data passes through
//
// The plugin has the life cycle of a proxy, and no diffs: it watches the API by a socket
// of its own. What it says it serves becomes the slice. The service proxy of the node
// makes rules of that as of any other service, and prefers the endpoint of its own node.
//
// It must not import kernel/plugin, nor name a plugin.
package clusterdns
