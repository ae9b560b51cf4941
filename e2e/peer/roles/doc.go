// Command roles asks Kubernetes itself (k8s.io/kubernetes, at the version of
// this module's go.mod) which roles and bindings its API server makes at its
// start with the default feature gates, and writes them as one JSON file, which
// kernel/api tests Pintle's against.
//
// The program imports nothing of Pintle, since the two are built against
// different versions of the API's libraries.
package main
