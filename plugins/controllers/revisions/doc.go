// Package revisions keeps the history of a controller's object as
// ControllerRevisions: what each rollout wrote into its pods, numbered. The
// statefulset controller and the daemonset controller use it.
//
// A revision holds data that the caller gives, as JSON. Its name is the owner's
// name and a hash of the data, so that two controllers, or one that was started
// anew, give the same data the same name. If another revision has the name, the
// collision count goes into the hash, and the caller writes the count into the
// status of the owner.
//
// History reads revisions from the shared informer, by the index of package
// ownership, and writes them with the client that it was given. It changes
// nothing that it reads: callers get objects of the cache and must copy them.
// Memory remembers which revisions mean the same as an object of now though
// their bytes differ, since that takes a request to find out.
//
// It imports client-go and its neighbour ownership, and no controller.
package revisions
