// Package garbagecollector deletes objects whose owners are gone, and deletes
// owners the way their deletion asks for: in the background (dependents
// after), in the foreground (dependents that block first) or as orphans
// (dependents lose the reference and stay).
//
// It learns of all kinds that can be deleted, listed and watched, custom ones
// included, by discovery, and watches each as metadata only. What is seen is
// kept as a graph (graph.go): for each object its identity, its owners and
// whether it is being deleted, and for each owner its dependents, also those
// of owners that were not seen. No objects are cached beside it.
//
// The graph says where to look and never what to do. Before anything is
// deleted or changed its owners are read from the API, and so is the object.
// One read is spared: a deletion that names the UID and the resource version
// that the graph has is refused if the API has another state. Each write
// carries the UID, so that what is late in the graph costs a look and no
// object. An idle cluster costs one request for discovery each half
// minute. The package imports client-go only.
package garbagecollector
