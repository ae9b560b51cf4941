// Package endpoints is the controller that keeps one Endpoints object for each
// service with a selector: the addresses of the pods that the selector
// matches, split into ready and not ready, with the ports of the service as
// each pod numbers them (000 EPC-1 to EPC-16).
//
// A change of a service queues it; a change of a pod queues the services that
// match its old or its new labels (EPC-5, EPC-6). Five workers compare what is
// wanted with what is there and write only a difference (EPC-7, EPC-13).
// Beyond 1,000 addresses an object is cut and annotated, ready addresses
// first; EndpointSlices have no such limit.
//
// Where the old description and Kubernetes 1.36 differ, 1.36 is followed: pods
// that are not ready stand in notReadyAddresses (EPC-16 is silent), the target
// reference of an address names no resource version (EPC-10), the hostname
// stands in the address and not in the annotation pod.beta.kubernetes.io/hostname
// (EPC-12), and an empty resource version means create (EPC-11, EPC-14).
package endpoints
