package plugin

import "errors"

// ErrUnavailable is wrapped by calls of a plugin that is down or being started again.
var ErrUnavailable = errors.New("is not available")

// ErrDigest is wrapped when an artefact is not the one that its manifest names.
var ErrDigest = errors.New("digest mismatch")

// errBroken marks failures after which a guest cannot be trusted with another
// call: a trap, a missed deadline, an answer out of range, a lost process.
var errBroken = errors.New("broken")

// errPermanent marks failures that another start would meet again.
var errPermanent = errors.New("cannot be started")
