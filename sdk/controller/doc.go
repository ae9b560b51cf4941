// Package controller is what the author of a controller plugin imports. A
// controller is given a client, not a secret door: an ordinary *rest.Config
// over a unix socket that stands for an identity of its own, so that
// unmodified client-go or controller-runtime code is a plugin in a few lines
// (architecture, decision 9). Its manifest declares what it may read and
// write, and nothing more is allowed.
//
// One process hosts many controllers. They share one informer factory, which
// reads with the bundle's identity; each writes with its own. The kernel
// switches them on and off by name while the process runs. Of several kernels
// of one cluster only one has its controllers run, so a controller elects no
// leader itself.
//
// Recorder is for controllers that tell of what they do by events.
//
// A controller whose Run fails or panics is built and run again with
// back-off, the others go on.
package controller
