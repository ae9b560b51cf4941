// Package join has how a machine becomes a node of a cluster whose kernel runs elsewhere, and
// the node's certificates from then on.
//
// # What it owns
//
// The argument of --join: a bootstrap token, the API server's address and the hash of the
// key of the cluster's authority. The file node.kubeconfig of the data directory, which says
// to which cluster the machine belongs. The node's client and serving certificates in pki/.
//
// # How data passes through
//
//	argument ──▶ ConfigMap kube-public/cluster-info, signed by the token
//	          ──▶ authority, whose key has the hash ──▶ the same again, over its TLS
//	token ──▶ CertificateSigningRequest of system:node:NAME ──▶ client certificate
//	client certificate ──▶ requests for the next one, and for the serving certificate
//
// Until the hash is compared, nothing that a server says is believed, and the token is not
// sent to it. Answers are bounded.
//
// It must not import kernel/api or kernel/node: it is an ordinary client.
package join
