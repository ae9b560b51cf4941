// Package iptables is the proxy that lets the kernel forward: it keeps
// iptables chains in step with services and endpoints and touches no packet
// itself.
//
// # What it owns
//
// Chains of table nat: KUBE-SERVICES, KUBE-NODEPORTS, KUBE-POSTROUTING,
// KUBE-MARK-MASQ, and per service port KUBE-SVC-*, KUBE-SEP-* (one an endpoint)
// and KUBE-XLB-* (traffic policy Local). Chains of table filter: KUBE-SERVICES
// and KUBE-EXTERNAL-SERVICES (rejects), KUBE-FORWARD and KUBE-FIREWALL. Jumps to
// them at the head of the built-in chains. The layout is that of the requirements PIT-1 to PIT-43; where today's
// kube-proxy does more (traffic policies, protection of loopback node ports)
// it is added, never put in another's place.
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
