package daemonset

import (
	"sync"
	"time"
)

// expectationTTL is how long an expectation that is not met holds a set back.
const expectationTTL = 5 * time.Minute

// expectations remembers, for each set, how many creations and which deletions
// the informer has still to show. A deletion is known by the pod, so that its mark
// and its removal count once.
type expectations struct {
	now func() time.Time

	mu    sync.Mutex
	byKey map[string]*expectation
}

type expectation struct {
	creations int
	deletions map[string]struct{}
	set       time.Time
}

func newExpectations(now func() time.Time) *expectations {
	return &expectations{now: now, byKey: map[string]*expectation{}}
}

// satisfied says whether pods may be made or deleted.
func (e *expectations) satisfied(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.byKey[key]
	return x == nil || x.creations <= 0 && len(x.deletions) == 0 || e.now().Sub(x.set) > expectationTTL
}

func (e *expectations) expect(key string, creations int, deletions []string) {
	x := &expectation{creations: creations, deletions: make(map[string]struct{}, len(deletions)), set: e.now()}
	for _, pod := range deletions {
		x.deletions[pod] = struct{}{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.byKey[key] = x
}

// created counts creations that were seen, or that will not be.
func (e *expectations) created(key string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byKey[key]; x != nil {
		x.creations -= n
	}
}

// deleted notes a deletion that was seen, or that will not be.
func (e *expectations) deleted(key, pod string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byKey[key]; x != nil {
		delete(x.deletions, pod)
	}
}

func (e *expectations) forget(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byKey, key)
}
