// Package enablement decides which versions and resources of the API are served,
// by kube-apiserver's rules for --runtime-config.
//
// It owns what is served by default (versions that are generally available, and the
// kernel's own), what may be taken away, and what may not because the kernel itself
// lives by it. What is not served keeps its objects in the store.
//
// It imports the API's libraries only.
package enablement
