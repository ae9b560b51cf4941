// The controllers bundle: one process that hosts every controller of a
// standard cluster through sdk/controller, and the cloud provider local with
// Kubernetes' cloud controllers through sdk/cloud. Each can be switched off by name
// or replaced by a plugin of the same name; they share the informers of the
// process, which read with the bundle's identity, and each writes with an
// identity of its own, allowed what manifest.yaml says and nothing more.
//
// A controller's package holds its logic, imports sdk and client-go only and
// never the kernel or another controller. What several need stands in queue (the
// frame they run in), ownership (taking and releasing children by owner
// reference), revisions (their history in ControllerRevisions), consistency (caches that are behind
// what was written), nodepods (the pods of a node), podchange (the services that a pod concerns) and subsets (the
// layout of Endpoints). Tests of several play in internal/testapi.
package main
