package cli

// Exit codes.
const (
	ExitFault = 1 // something failed while running
	ExitUsage = 2 // wrong flags, arguments or configuration
)

// UsageError marks faults of what the user wrote, which end with ExitUsage.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

// UsageFault marks err as a fault of what the user wrote.
func UsageFault(err error) error { return UsageError{err} }

// Exit codes of what was looked for, beside these.
const (
	ExitDamaged = 3
	ExitGone    = 4
)

// ExitError ends the program with a code of its own.
type ExitError struct {
	error
	Code int // of the process
}

func (e ExitError) Unwrap() error { return e.error }

// ExitWith has the program end with code where err is its error.
func ExitWith(err error, code int) error { return ExitError{err, code} }
