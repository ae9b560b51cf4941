// Package measures counts what the service proxies do, under kube-proxy's names, so that its
// dashboards and alerts work.
//
// # What it owns
//
// The metrics of kube-proxy 1.36 for which there is something to count: syncs of rules, their
// failures, changes, flows that were deleted, and answers about health. Not there are what a
// proxy here does not have: changes that wait, numbers of rules of iptables, and
// network_programming_duration_seconds, since diffs do not say when an endpoint changed. Besides,
// how full the kernel's table of connections is (node_nf_conntrack_…, as of node_exporter), which kube-proxy does not say.
//
// Data passes: proxies call functions; Register has the process serve it, and the kernel's
// /metrics shows it.
//
// It must not import kernel.
package measures
