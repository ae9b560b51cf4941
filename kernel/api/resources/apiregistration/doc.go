// Package apiregistration says what an APIService is (apiregistration.k8s.io/v1):
// a group version of the API, and which server serves it: this kernel ("Local")
// or another one behind a Service.
//
// Validation and defaults are those of k8s.io/kube-aggregator, and so are the
// columns that a table has. One rule is added: a group version that the kernel
// itself serves cannot be given to a Service. The kernel's own parts read and write
// built-in kinds without HTTP, so that another server could take over half of
// such a group at most.
//
// Kinds gives the served kind. The package is stateless. It must not import
// kernel/api, the store, the bus or a plugin.
package apiregistration
