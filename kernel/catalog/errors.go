package catalog

import (
	"errors"
	"fmt"

	"pintle.dev/pintle/kernel/plugin"
)

var (
	// ErrSignature marks bundles that the policy of signatures refuses.
	ErrSignature = errors.New("signature refused")
	// ErrPackage marks packages that are damaged or made to do harm.
	ErrPackage = errors.New("package refused")
	// ErrDigest marks bytes that are others than were pinned.
	ErrDigest = plugin.ErrDigest
)

// refused is a package that is not taken.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrPackage, fmt.Errorf(format, args...))
}
