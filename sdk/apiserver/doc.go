// Package apiserver is what the author of an API server plugin imports: a server of
// group versions of the Kubernetes API that the kernel does not have itself.
//
// # What it owns
//
// The process's side of contract/v1's APIServers: the unix socket that a server listens
// at, who may connect to it, and the user of each request. A server is an http.Handler,
// small ones by hand; package generic below makes one of any server that is built on
// k8s.io/apiserver.
//
// # What it promises
//
// A connection is taken from the kernel's user and from nobody else (SO_PEERCRED), in a
// folder that is closed to other users. So the X-Remote-* headers of a request are the
// kernel's word, and UserOf reads them. The kernel has authenticated and authorized the
// request by then, and taken the client's own credentials away. A handler that panics
// answers with 500, and the process goes on.
//
// Data passes: kernel → socket → handler → Context.Client, an ordinary client with the
// plugin's own identity, and rights from its manifest alone.
//
// It must not import the kernel, nor k8s.io/apiserver: a small server does without.
package apiserver
