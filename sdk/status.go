package sdk

import "time"

// Code is the outcome of a point of the scheduling cycle. The numbers and their
// meaning are those of the Kubernetes scheduling framework (KEP-624).
type Code uint8

const (
	// Success: go on.
	Success Code = iota
	// Error: something is wrong that is not the pod's fault; it is tried again
	// with back-off.
	Error
	// Unschedulable: not now. What preemption could change might help.
	Unschedulable
	// UnschedulableAndUnresolvable: not now, and preemption is of no use.
	UnschedulableAndUnresolvable
	// Wait: Permit only, the pod waits on its node for an Allow.
	Wait
	// Skip: nothing to say. Of Bind: the next plugin, or the host, binds.
	Skip
)

// Status is the answer of a plugin at a point of the cycle. The zero value is
// Success.
type Status struct {
	Code Code
	// Reasons says why not, or what a pod waits for, in words for users.
	Reasons []string
	// Timeout is how long a pod waits at most; with Wait only. The host allows
	// 15 minutes.
	Timeout time.Duration

	bound     bool
	withdrawn bool
}

// Withdraw is the status, and takes back the nomination that the pod may have:
// what a post-filter plugin says that cannot help it.
func (s Status) Withdraw() Status {
	s.withdrawn = true
	return s
}

// Refuse is Unschedulable with the reasons.
func Refuse(reasons ...string) Status { return Status{Code: Unschedulable, Reasons: reasons} }

// RefuseForGood is UnschedulableAndUnresolvable with the reasons.
func RefuseForGood(reasons ...string) Status {
	return Status{Code: UnschedulableAndUnresolvable, Reasons: reasons}
}

// Fail is Error with the words of err; Success if it is nil.
func Fail(err error) Status {
	if err == nil {
		return Status{}
	}
	return Status{Code: Error, Reasons: []string{err.Error()}}
}

// WaitFor is Wait: the pod keeps its place until Allow or Reject, and is refused
// when the time is over. The reasons say what it waits for: pintle explain shows them
// meanwhile, and the event of a refusal has them behind the time.
func WaitFor(timeout time.Duration, reasons ...string) Status {
	return Status{Code: Wait, Timeout: timeout, Reasons: reasons}
}

// Skipped is Skip.
func Skipped() Status { return Status{Code: Skip} }

// Bound is the Success of a Bind that has written the binding itself. Without
// it the host writes.
func Bound() Status { return Status{bound: true} }
