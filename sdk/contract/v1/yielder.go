package contractv1

import (
	"context"
	"time"
)

// YieldAfter is how long a question may keep who asks it from everything else. A
// policy offers to yield when it has no answer by then.
const YieldAfter = 50 * time.Millisecond

// Yielder is who asks a policy, where that can do something else while an answer is
// late. Who is asked finds it in the context of the call.
type Yielder interface {
	// Yield is called while a question has no answer yet, on any goroutine, while the
	// one that asked waits. True: others go on from now, so that nothing may be touched
	// that is theirs before Resume has returned. False: this cannot be left now.
	Yield() bool
	// Resume is called behind a Yield that was true, on the goroutine that asked. It
	// waits until the others have stopped. The context's error says from then on that
	// the answer comes too late. Answered: there was an answer, in the end.
	Resume(answered bool)
}

type yielderKey struct{}

// YielderKey is the key at which a context has its Yielder.
var YielderKey any = yielderKey{}

// YielderOf is the Yielder of a context, or nil.
func YielderOf(ctx context.Context) Yielder {
	y, _ := ctx.Value(YielderKey).(Yielder)
	return y
}

// Overtaken is the error of a context whose question was answered after others had
// gone on. What was asked belongs to a state that is no more: ask again.
type Overtaken struct{}

// Error implements error.
func (Overtaken) Error() string { return "the answer came late: others were decided about meanwhile" }

// Ended reports whether a context ended, as it does not when a question was overtaken:
// how that went counts.
func Ended(ctx context.Context) bool {
	err := ctx.Err()
	return err != nil && err != error(Overtaken{})
}
