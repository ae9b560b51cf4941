// Package trust tells other API servers whom to believe: ConfigMap
// kube-system/extension-apiserver-authentication, which servers behind an APIService
// read to authenticate clients of this cluster and its front proxy.
//
// It owns the ConfigMap under upstream's keys, and keeps it: what is missing is added,
// what others of the cluster's kernels wrote stays, authorities that have expired are
// dropped, and a content that cannot be read is written anew.
//
// It must not import kernel/api. Data passes: Sources → Keep → client.
package trust
