// Command upstream asks Kubernetes itself (k8s.io/kubernetes, at the version of
// this module's go.mod) what it says of the objects of ../corpus, and writes the
// answers as files of JSON lines, which kernel/api tests Pintle against.
//
// A group of the corpus is an object and edits of it: variations on the new
// object, updates of the stored one, and updates through a subresource. To them
// come generated edits, drawn with a seed that is the group's name. Each request
// goes through upstream's registry strategy as the API server would send it;
// the answer is the object with its defaults, the errors or else the warnings
// and what a later read gives, and the printed row.
//
// The program imports nothing of Pintle, since the two are built against
// different versions of the API's libraries.
package main
