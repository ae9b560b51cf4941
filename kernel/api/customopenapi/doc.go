// Package customopenapi makes the OpenAPI v3 documents of custom resources when they
// are asked for.
//
// It owns which definitions a document is of. It promises that a document changes with
// its definitions, and that nothing is built or kept for one that nobody asked for: the
// controller of k8s.io/apiextensions-apiserver builds each document at each change, and
// keeps 200 KB of each definition. What is sent is kept by the service that sends it.
//
// It imports the API's libraries only, and follows the informer of definitions that it
// is given, without a goroutine of its own.
package customopenapi
