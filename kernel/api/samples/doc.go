// Package samples has objects as clusters commonly have them, of the kinds of which there are many: what the store
// compresses such objects by (store.Config.Dictionaries).
//
// # What it owns
//
// The samples, pod.json and event.json, and their encoding. They are written for the purpose and of no cluster, because
// the store keeps them for good.
//
// # What it promises
//
// The encoding is what is stored for such an object, so that the two have much in common. A sample may change at any
// time: the store keeps the former ones for the values that were compressed by them.
//
// # Caveats
//
// What counts is what all objects of a kind share: names of fields (those of managedFields take most of a pod), defaults,
// what admission adds. Later parts are found best, so the plainest sample comes last.
package samples
