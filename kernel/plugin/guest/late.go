package guest

import (
	"pintle.dev/pintle/kernel/scheduler/handover"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Lender is who lets go of its lock while a guest is late.
type Lender interface {
	// Yields reports whether the caller can do other work meanwhile.
	Yields() bool
	// Lend reports whether the lock was let go of. Reclaim is to be called then, on the
	// goroutine of the question, when it is over.
	Lend() bool
	Reclaim(answered bool)
}

// Watched is a call to a process, which by asked.
func Watched(by Lender, call func() error) (err error) {
	if by == nil || !by.Yields() {
		return call()
	}
	if handover.Watch(func() { err = call() }, contractv1.YieldAfter, by.Lend) {
		by.Reclaim(err == nil)
	}
	return err
}

// Held is a guest that says so when it is late.
type Held interface{ HeldBy(Lender) }
