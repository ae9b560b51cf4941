package job

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

// expectationTTL is how long events that do not come hold a Job back.
const expectationTTL = 5 * time.Minute

// expectations remembers, for the UID of each Job, what its syncs did and the
// informer has still to show.
type expectations struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	byJob map[types.UID]*expectation
}

type expectation struct {
	add   int                 // creations, counted
	del   sets.Set[types.UID] // deletions, by the pod's UID, since a pod shows its deletion twice
	since time.Time           // of add and del

	// removed are the pods whose finalizer is off, or is being taken off. They
	// are counted already, whatever the cache says of them.
	removed sets.Set[types.UID]
}

func newExpectations(c clock.PassiveClock) *expectations {
	return &expectations{clock: c, byJob: map[types.UID]*expectation{}}
}

// of returns the Job's record; the lock is held.
func (e *expectations) of(job types.UID) *expectation {
	x := e.byJob[job]
	if x == nil {
		x = &expectation{del: sets.New[types.UID](), removed: sets.New[types.UID]()}
		e.byJob[job] = x
	}
	return x
}

// satisfied says whether pods may be made or deleted.
func (e *expectations) satisfied(job types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.byJob[job]
	return x == nil || x.add <= 0 && len(x.del) == 0 || e.clock.Since(x.since) > expectationTTL
}

func (e *expectations) expectCreations(job types.UID, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.of(job)
	x.add, x.del, x.since = n, sets.New[types.UID](), e.clock.Now()
}

func (e *expectations) expectDeletions(job types.UID, pods []types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.of(job)
	x.add, x.del, x.since = 0, sets.New(pods...), e.clock.Now()
}

// created counts n creations that were seen, or that failed.
func (e *expectations) created(job types.UID, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byJob[job]; x != nil {
		x.add -= n
	}
}

// deleted notes a deletion that was seen, or that failed.
func (e *expectations) deleted(job, pod types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byJob[job]; x != nil {
		x.del.Delete(pod)
	}
}

func (e *expectations) expectRemovals(job types.UID, pods []types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of(job).removed.Insert(pods...)
}

// removed notes that the cache shows a pod without the finalizer, or that the
// finalizer could not be taken off.
func (e *expectations) removed(job, pod types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byJob[job]; x != nil {
		x.removed.Delete(pod)
	}
}

// removals returns the pods whose finalizer is off though the cache may say
// otherwise.
func (e *expectations) removals(job types.UID) sets.Set[types.UID] {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byJob[job]; x != nil {
		return x.removed.Clone()
	}
	return nil
}

func (e *expectations) forget(job types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byJob, job)
}
