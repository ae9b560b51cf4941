// Package csr has the controllers of CertificateSigningRequests that need no key.
//
// csrapproving: a request for a node's client certificate changes → its requestor is
// asked about by a SubjectAccessReview (selfnodeclient for the node's own, nodeclient
// for any) → it is approved, or left for somebody else to decide about. A request for the
// certificate of another Node that exists is denied, and so is the second machine's that asks
// for one name. Another's that is older than an hour waits for a person.
//
// csrapproving-kubelet-serving: a request for a node's serving certificate changes → it is
// the node's own, and names the Node's name, hostname and addresses, which no other Node, no
// range of pods or Services and no API server has → it is approved. Upstream leaves that to
// a person, as this does with all others.
//
// csrcleaner: each hour all requests are listed → those that are done, refused or
// forgotten for long enough are deleted.
//
// It signs nothing: no plugin has the key of the cluster's authority.
package csr
