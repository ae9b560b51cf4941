// Package tokensecrets is upstream's serviceaccount-token-controller: it fills Secrets
// of type kubernetes.io/service-account-token with the token of their service account,
// the cluster's authority and their namespace.
//
// How data passes through: a Secret or a service account changes → the Secret is
// looked at as it is now → it gets what it lacks, or is deleted where its service
// account is gone. A Secret that is deleted is taken out of its service account's list.
// Each change says which state it was made of, so that several kernels may do this at
// the same time.
//
// It is in the kernel and no plugin, since it signs: no plugin has the key of tokens.
// It must not import the API server.
package tokensecrets
