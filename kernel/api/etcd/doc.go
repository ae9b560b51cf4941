// Package etcd is the storage of the API on an etcd cluster, which several kernels may share.
//
// # What it owns
//
// The connection to etcd; where keys lie in it (as kube-apiserver lays them out, below one prefix); and what kernels of
// one cluster have to agree on outside the API's objects: the cluster's keys (authority.go), the cluster IPs and node
// ports that are taken (claims.go) and the addresses of the API servers that live (peers.go).
//
// # What it promises
//
// Objects are read and written by k8s.io/apiserver's own etcd3 storage behind its own cacher, so that consistency,
// watches, compaction and error words are upstream's. The package adds nothing to that path.
//
// # How data passes through
//
// Backend gives generic.RESTOptions whose decorator makes upstream's storages. All of them, and what this package itself
// asks of etcd, share one client.
//
// # Caveats
//
// Objects of lists and watch events are shared with the cacher: they may be read and encoded, not changed. Watch events
// may carry runtime.CacheableObject; who takes them without encoding unwraps them (api.Server.Source does).
//
// The package may import kernel/api/storage and kernel/api/auth/pki, and nothing above.
package etcd
