// Package csr has the controllers of CertificateSigningRequests that need no key.
//
// csrapproving: a request for a node's client certificate changes → its requestor is
// asked about by a SubjectAccessReview (selfnodeclient for the node's own, nodeclient
// for any) → it is approved, or left for somebody else to decide about. Who asks for the
// certificate of another node that is there has to wait for a person.
//
// csrapproving-kubelet-serving: a request for a node's serving certificate changes → it is
// the node's own, and names addresses that its Node has and nobody else → it is approved.
// Upstream leaves that to a person.
//
// csrcleaner: each hour all requests are listed → those that are done, refused or
// forgotten for long enough are deleted.
//
// It signs nothing: no plugin has the key of the cluster's authority.
package csr
