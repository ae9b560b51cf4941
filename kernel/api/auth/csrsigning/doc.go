// Package csrsigning is upstream's certificatesigningrequest-signing-controller: it
// signs approved CertificateSigningRequests of the four signers of kubernetes.io.
//
// How data passes through: a request changes → it is looked at as it is now → where it
// is approved, and is what its signer signs, the authority signs it → the certificate
// is written to its status. What its signer does not sign gets the condition Failed.
// Rules and words are upstream's (Kubernetes 1.36).
//
// It is in the kernel and no plugin, since it signs: no plugin has the authority's key,
// or a way to have anything signed by it. It writes as certificate-controller, whose
// role says for which signers. It does not know who may approve: admission does. It
// must not import the API server.
package csrsigning
