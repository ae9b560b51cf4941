// Package namespace is the controller that empties a namespace that is being
// deleted and then takes the finalizer kubernetes off it.
//
// It deletes what discovery names, custom resources too: pods first and, once
// they are gone, every other kind, eight at a time. How far it has come stands
// in the conditions of the namespace. It looks again when the last pod of
// the namespace goes, and otherwise when the grace periods or finalizers of what
// is left suggest it, within five seconds at most.
//
// Kinds whose discovery fails are reported and hold the namespace back; the
// kinds that are known are emptied meanwhile.
package namespace
