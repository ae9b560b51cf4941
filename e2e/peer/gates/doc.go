// Command gates asks Kubernetes itself (k8s.io/kubernetes, at the version of
// this module's go.mod) which feature gates its components know, and writes
// them as a line each, which kernel/features reads.
//
// The program imports nothing of Pintle, since the two are built against
// different versions of the API's libraries.
package main
