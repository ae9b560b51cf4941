// Package bootstraptokens makes, lists and deletes bootstrap tokens, and prepares a cluster for
// machines that join by them, as kubeadm does.
//
// # What it owns
//
// Tokens are Secrets of type bootstrap.kubernetes.io/token in kube-system. Prepare writes the
// ConfigMap kube-public/cluster-info and the roles that joining needs, by kubeadm's names;
// what is there of roles is left as it is.
//
// # How data passes through
//
// An administrator's client writes; the controllers bootstrapsigner and tokencleaner do the
// rest, and the API server lets the tokens in.
//
// It must not import kernel/api: it is an ordinary client.
package bootstraptokens
