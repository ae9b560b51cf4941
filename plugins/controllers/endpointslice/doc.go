// Package endpointslice is the controller that keeps the EndpointSlices of
// services with a selector, one set for each address family of the service,
// at most 100 endpoints a slice, with zone hints where the service asks for
// them (003, 004: EndpointSlice controller). Its slices are labelled
// kubernetes.io/service-name and managed by endpointslice-controller.k8s.io.
//
// What slices a service needs is decided by k8s.io/endpointslice; this package
// decides when to ask. Slices with another manager are never touched.
package endpointslice
