// Package iptables is the proxy that lets the kernel forward: it keeps
// iptables chains in step with services and endpoints and touches no packet
// itself.
//
// # What it owns
//
// Chains of table nat: KUBE-SERVICES, KUBE-NODEPORTS, KUBE-POSTROUTING,
// KUBE-MARK-MASQ, KUBE-MARK-OUTSIDE, and per service port KUBE-SVC-* (traffic
// policy Cluster), KUBE-SVL-* (policy Local), KUBE-EXT-* (addresses for outside),
// KUBE-FW-* (source ranges) and KUBE-SEP-* (one an endpoint). Chains of table
// filter: KUBE-SERVICES and KUBE-EXTERNAL-SERVICES (rejects), KUBE-PROXY-FIREWALL
// (what source ranges leave out), KUBE-NODEPORTS (health checks), KUBE-FORWARD and
// KUBE-FIREWALL. Jumps to them at the head of the built-in chains. Traffic to
// cluster IPs has the layout of the requirements PIT-1 to PIT-43; traffic from
// outside has that of kube-proxy 1.36, which serves traffic policies.
//
// # How data passes through
//
// Apply folds a diff into the state, renders the touched services anew
// (render.go), and loads the chains whose text differs from what was loaded
// last, in one iptables-restore that leaves every other chain and its counters
// alone (sync.go). A restore that fails changes nothing; the next one is whole.
//
// It must not import kernel.
package iptables
