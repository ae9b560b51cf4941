// Package identitylease keeps the Lease that says that a kernel's API server lives, as
// each kube-apiserver has one: in kube-system, with the label
// apiserver.kubernetes.io/identity.
//
// It owns the kernel's own Lease (made, renewed each ten seconds, deleted at an
// orderly stop), and takes away those of kernels that did not renew theirs for an
// hour. It works through a client alone, and imports nothing of the kernel.
package identitylease
