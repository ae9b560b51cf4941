// Package extendedresourcetoleration is the admission plugin
// ExtendedResourceToleration: a pod that requests an extended resource tolerates
// the taint of that name, by which nodes keep others away from it.
package extendedresourcetoleration
