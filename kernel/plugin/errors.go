package plugin

import (
	"errors"
	"fmt"
)

// ErrUnavailable is wrapped by calls of a plugin that is down or being started again.
var ErrUnavailable = errors.New("is not available")

// unavailable is the error of a bundle that is down or being started again.
func unavailable(bundle string) error {
	return fmt.Errorf("plugin bundle %s %w", bundle, ErrUnavailable)
}

// errBroken marks failures after which a guest cannot be trusted with another
// call: a trap, a missed deadline, an answer out of range, a lost process.
var errBroken = errors.New("broken")

// brokenError wraps errBroken without a word of its own.
type brokenError struct{ error }

func (e brokenError) Unwrap() []error { return []error{e.error, errBroken} }

func broken(format string, args ...any) error { return brokenError{fmt.Errorf(format, args...)} }

// errPermanent marks failures that another start would meet again.
var errPermanent = errors.New("cannot be started")
