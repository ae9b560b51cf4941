// Package endpointslicemirroring is the controller that mirrors Endpoints which
// somebody wrote by hand into EndpointSlices, so that they reach all that reads
// slices, such as the service proxies.
//
// Endpoints are mirrored when a service of the same name exists and has no
// selector, unless they carry the label endpointslice.kubernetes.io/skip-mirror
// or the annotation of an old leader election. Each set of ports and address
// family of the Endpoints becomes one slice of at most 1000 endpoints, owned by
// the Endpoints and managed by endpointslicemirroring-controller.k8s.io. What
// could not be mirrored is said in an event of the Endpoints.
//
// Endpoints are packed (package subsets), turned into wanted slices (wanted.go)
// and compared with the slices that exist (plan.go); controller.go decides when
// and writes. Slices with another manager are never touched.
package endpointslicemirroring
