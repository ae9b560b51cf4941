// Package api is Pintle's Kubernetes API server: k8s.io/apiserver with the
// versioned k8s.io/api types as the only types.
//
// It owns the scheme, the handler chain, one registry store a served kind
// (described by kernel/api/resources), the subresources with behaviour of
// their own (binding, eviction, log, exec, attach, portforward, proxy, token,
// scale, finalize), CustomResourceDefinitions, discovery, OpenAPI, and the
// ways in: TLS, unix sockets with a fixed identity, an in-process transport,
// and direct access for the kernel's own scheduler and node agent.
//
// It promises that each way in passes the same authentication, authorization,
// admission and validation, except Source and Bind, which are for the kernel
// itself and skip the HTTP layer; and that an object returned by Source is
// shared and must not be changed.
//
// It must not import kernel/scheduler, kernel/node or kernel/plugin, nor any
// plugin.
//
// Data passes: request → handler chain → registry store (strategy, admission)
// → storage.Interface of kernel/api/storage → kernel/store. Ordinary creates of
// pods leave the machinery's handler aside (podcreate.go) and bindings are written
// over the shared pod (binding.go): of what a scheduler waits for they are most. So do
// patches of pods' statuses (package statuspatch), of which a pod's start has one and
// its end another, and deletes of pods (package poddelete), of which its end has two.
//
// Caveats: each v1 type is registered as the internal version too, so that no
// conversion copies an object on its way to the wire; encoders therefore work
// on a shallow copy, and nothing may write into an object read from a store.
package api
