package guest

import (
	"errors"
	"fmt"
)

// ErrUnavailable is wrapped by calls of a plugin that is down or being started again.
var ErrUnavailable = errors.New("is not available")

// Unavailable is the error of a bundle that is down or being started again.
func Unavailable(bundle string) error {
	return fmt.Errorf("plugin bundle %s %w", bundle, ErrUnavailable)
}

// ErrBroken marks failures after which a guest cannot be trusted with another
// call: a trap, a missed deadline, an answer out of range, a lost process.
var ErrBroken = errors.New("broken")

// brokenError wraps ErrBroken without a word of its own.
type brokenError struct{ error }

func (e brokenError) Unwrap() []error { return []error{e.error, ErrBroken} }

func Broken(format string, args ...any) error { return brokenError{fmt.Errorf(format, args...)} }

// ErrPermanent marks failures that another start would meet again.
var ErrPermanent = errors.New("cannot be started")
