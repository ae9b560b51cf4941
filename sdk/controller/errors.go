package controller

import "errors"

// ErrUnknown is answered for a name that the bundle does not hold.
var ErrUnknown = errors.New("no such controller in this bundle")
