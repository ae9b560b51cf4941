// Package ttlafterfinished deletes Jobs that ended, with their pods, when
// spec.ttlSecondsAfterFinished is over (GC-14, 6.19, 6.20).
//
// How data passes through: a Job that ended and has a TTL comes from the shared
// informer onto a queue and waits there until the TTL is over by the machine's
// clock. The Job is then read from the API, since its TTL may be another by
// now, and deleted in the foreground, as that version and no other. A wait lasts
// 10 minutes at most, so that a clock that is set is noticed.
//
// It imports client-go, queue and sdk only.
package ttlafterfinished
