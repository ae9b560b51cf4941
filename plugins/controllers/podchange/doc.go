// Package podchange finds the services that a change of a pod concerns, for the
// two controllers that write down the pods of services (EPC-5, EPC-6): those
// that selected the pod as it was and those that select it as it is.
//
// The informer's goroutine only notes what changed of a pod; the services are
// looked through by workers, since there may be many. A change that concerns no
// service's endpoints, such as of an annotation, is dropped.
//
// It imports client-go and the library of EndpointSlices only.
package podchange
