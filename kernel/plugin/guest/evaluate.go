package guest

import (
	"context"
	"errors"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Evaluator is a guest that several questions can be asked in one round trip.
type Evaluator interface {
	// Evaluates reports whether the plugin knows the call.
	Evaluates() bool
	// Evaluate hands over what is queued and asks. It fills in what was answered. An
	// error means that the replica is in no defined state, unless it is
	// ErrAlone, which means that nothing happened.
	Evaluate(ctx context.Context, queue []Part, generation uint64, a *Asked, e *contractv1.Evaluation) (took []time.Duration, err error)
}

// BatchTaker takes several deltas in one round trip.
type BatchTaker interface {
	Evaluator
	ApplyAll(ctx context.Context, queue []Part) error
}

// ErrAlone is returned by a plugin that was built before Evaluate was there.
var ErrAlone = errors.New("it is asked one question at a time")

// QuestionError is the error of an evaluation that ended at a question: 0 is the
// first, of filters and then of scores.
type QuestionError struct {
	Question int
	Err      error
}

func (e *QuestionError) Error() string { return e.Err.Error() }

func (e *QuestionError) Unwrap() error { return e.Err }
