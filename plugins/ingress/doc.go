// Ingress is the bundle of the way in: a process that takes requests for Ingresses and for
// Gateways at ports of the machine and forwards them to pods.
//
// # What it owns
//
// Ports 80 and 443, or others of its settings. Its packages are settings (the keys), routes
// (which backend a host and path have), certificates (those of hosts, from Secrets), proxy
// (listeners, bounds, forwarding), direct (requests without a body) and keeper (the controller, which joins them). Packages
// gateway (what the objects of Gateway API mean) and gatewaykeeper (their controller) are
// beside these; both kinds become rules of one table.
//
// # What it may do
//
// The process has the machine's network and of all capabilities that of low ports, where
// the operator grants both. It lists and watches Ingresses, IngressClasses, Services and
// EndpointSlices, writes the status of Ingresses and events, makes its IngressClass and gets
// its own Node. Of Secrets it gets one by its name at a time, and reads those alone that an
// Ingress names, of the Ingress's own namespace. RBAC does not know which those are, so who
// took the process over could get others whose names he guesses; he could list none. Who
// wants less leaves the plugin the rule of Secrets in some namespaces, by spec.permissions of
// its Plugin object.
//
// The controller gateway has an identity of its own, with rights at the objects of Gateway
// API alone. It hands these to keeper, and writes the statuses that come back.
//
// Data passes: informers → keeper → routes → proxy.
//
// It imports sdk, and must not import the kernel.
package main
