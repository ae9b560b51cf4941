// Package loop is the frame all queue-driven controllers of the bundle share:
// event handlers on shared informers, a rate-limited queue of keys, workers
// and the recorder of events.
//
// Handlers are put on informers when Run starts and taken off before it
// returns, so that a controller that is switched off leaves nothing behind in
// the informers it shares. Run returns when its workers have ended. A key is
// never worked on by two workers at once; a sync that fails is tried again
// with back-off. The package knows no kinds and imports client-go only.
package loop
