// Package queue is the loop that the controllers of this bundle run on: a
// queue of keys, workers that take them, retries with back-off, and event
// handlers that are put on shared informers for as long as the loop runs.
//
// It promises that a key is worked on by one worker at a time, that a key
// added while it is worked on is worked on again, and that Run returns only
// after its workers have ended and its handlers are off the informers.
//
// It knows no kinds and must not import a controller or the kernel. A handler
// runs on the informer's goroutine and may only look at objects and add keys.
package queue
