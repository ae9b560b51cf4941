// Package certificates has the admission plugins CertificateApproval,
// CertificateSigning and CertificateSubjectRestriction.
//
// To change a certificate signing request takes the right to its subresource.
// To approve or to sign takes a right for the request's signer besides: the verb
// approve or sign on signers (certificates.k8s.io) of that name, or of all names
// of its domain (example.com/*). Nobody gets a certificate of system:masters from
// the signer of the API server's clients.
package certificates
