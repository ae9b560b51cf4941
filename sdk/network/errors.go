package network

import "errors"

// ErrUnusable wraps the reason why a network cannot run on this machine.
var ErrUnusable = errors.New("network cannot run on this machine")

// ErrUnknown is answered for a name that the bundle does not hold.
var ErrUnknown = errors.New("no such network in this bundle")

// ErrNotStarted is answered to a diff before Start.
var ErrNotStarted = errors.New("network is not started")

// ErrReset asks for a diff with Reset set: the network was started anew and knows nothing.
var ErrReset = errors.New("network was started anew and needs every node")
