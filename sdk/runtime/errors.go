package runtime

import "errors"

// ErrNotStarted is answered to a question about a runtime before Start.
var ErrNotStarted = errors.New("runtime is not started")

// ErrUnknown is answered for a name that the bundle does not hold.
var ErrUnknown = errors.New("no such runtime in this bundle")
