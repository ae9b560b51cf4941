// Package published has the revocation list of a cluster where machines without a kernel read
// it: a ConfigMap, and both of its ends.
//
// # What it owns
//
// The ConfigMap kube-system/pintle-revoked-certificates, whose key ca.crl has the list as the
// authority signed it. A Publisher keeps it in a kernel, a Follower reads it on a machine, and
// keeps the newest in a file for the next start.
//
// # How data passes through
//
//	Guard of the kernel ──▶ Publisher ──▶ ConfigMap ──▶ Follower ──▶ Guard of the node, file
//
// Nothing is believed but the authority's signature: who may write the ConfigMap can delay a
// revocation, and can neither add nor take one back. A list in force only grows. A cluster
// without a revoked certificate has no ConfigMap.
//
// It must not import the API server or the node agent, which use it.
package published
