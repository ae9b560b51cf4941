// Package certificates says what a CertificateSigningRequest is
// (certificates.k8s.io/v1): who asked, what may change through which of its
// subresources, validation and how a table prints it.
//
// Who asks is written by the server, from the authenticated request: an approver
// trusts it. The spec never changes after that. The approval subresource alone
// writes the conditions Approved and Denied, the status subresource alone the
// certificate, once. Who may approve and sign for which signer is asked by
// package kernel/api/admission/certificates.
//
// Kinds gives the served kind. Rules, field paths and the words of errors are
// upstream's (Kubernetes 1.36). The package is stateless. It must not import
// kernel/api, the store, the bus or a plugin.
package certificates
