// Package peerproxy lets kernels of one cluster that serve different resources answer
// for each other: while they are upgraded one after the other, or where their
// api.runtimeConfig or feature gates differ (Kubernetes' mixed version proxy, gate
// UnknownVersionInteroperabilityProxy).
//
// It owns the list of the kernels that live (Members), and the handler that sends a
// request for a resource that is not served here to one that serves it (Proxy). Which
// resources those are it learns from their discovery, by k8s.io/apiserver's peerproxy.
//
// Who is a kernel of the cluster is said by the store alone, under keys that no API
// serves: who can write there owns the cluster in any case. A record has the address,
// and the authority of the certificate by which the kernel shows itself. The identity
// Leases, which are API objects, only say when to ask again: one that somebody else
// writes leads nowhere.
//
// How data passes through: a request that authentication, authorization and priority
// let pass goes to the peer once, with the user in headers, and the peer does all of
// that again. The peer believes headers only with a certificate of an authority in the
// list. A request that comes from a peer is never sent on.
//
// It must not import the rest of the API server.
package peerproxy
