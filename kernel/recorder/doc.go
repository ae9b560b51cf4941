// Package recorder tells users what the scheduler did by events of events.k8s.io: all
// that client-go's broadcaster would write, at a price that thousands a second can pay.
//
// # What it owns
//
// The way of an event from Eventf to the API: a bounded queue, the writers, and
// correlation into series as client-go's events package has it (KEP-383). Equal
// events, that is of one type, reason, action, reporter and version of an object,
// become one with a series: written when the second comes, then counted here, and written again every half hour
// and once none came for six minutes.
//
// # What it promises
//
//   - Eventf never blocks and does next to nothing: objects, words and time are
//     put together by the writers. Nothing is kept of a pod but what its event says of it.
//   - Every event is written unless Config.Queue of them wait or the API refuses one;
//     both are counted (scheduler_events_dropped_total).
//   - An event that fails for reasons of transport is tried again, twelve times at most.
//   - Events give way: while its owner says so (Hold) they wait, each for a second at most and
//     Config.Held of them at most (16,384, which take 6 MB); beyond either they are written beside
//     whatever is more urgent, a batch at a time. The scheduler says so while it decides about
//     pods or bindings wait for a worker, so that a burst is bound first and its
//     events follow. Without such work an event is written at once. Nobody looks whether
//     the time has come: the owner tells, or a timer that runs only while something is held.
//   - Events are taken up in the order in which they came; what fails is written later, and two
//     writers that are at work may end in another order.
//   - When Run ends what waits is written first, held or not, in two seconds at most. What is
//     left then is lost, and counted.
//
// # Caveats
//
// client-go's recorder puts in a goroutine what waits for its queue of 1,000, and drops beyond
// that. Reasons in Config.Once do not become series, so that nothing is kept of
// them: a pod is scheduled once.
//
// The package imports client-go and nothing of the kernel.
package recorder
