// Package queue is the frame that the controllers of this bundle run in: queues
// of keys with workers that take them (Loop), retries with back-off, and event
// handlers that are put on shared informers for as long as the controller runs
// (Follow). Frame is both with a recorder of events: a controller embeds it.
//
// It promises that a key is worked on by one worker at a time, that a key
// added while it is worked on is worked on again, that a panic over one key
// fails that key only, and that Follow returns after all workers have ended and
// all handlers are off the informers.
//
// What a sync returns decides what comes next: nil ends the matter until the
// next event; After looks again after a time; any other error is retried with
// back-off and logged, unless it is a conflict, the absence or presence of an
// object, or marked Quiet, which happen in the ordinary course of things. A creation that
// is refused because its namespace is being deleted is not retried.
//
// It knows no kinds and must not import a controller or the kernel. A handler
// runs on the informer's goroutine and may only look at objects and add keys.
package queue
