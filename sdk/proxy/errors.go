package proxy

import "errors"

// ErrUnusable wraps the reason why a proxy cannot run on this machine.
var ErrUnusable = errors.New("proxy cannot run on this machine")

// ErrUnknown is answered for a name that the bundle does not hold.
var ErrUnknown = errors.New("no such proxy in this bundle")

// ErrNotStarted is answered to a diff before Start.
var ErrNotStarted = errors.New("proxy is not started")

// ErrReset asks for a diff with Reset set: the proxy was started anew and
// knows nothing.
var ErrReset = errors.New("proxy was started anew and needs everything")
