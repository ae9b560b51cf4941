package replicaset

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// expectationTTL is how long an expectation that is not met holds back a
// replica set (FIL-10).
const expectationTTL = 5 * time.Minute

// expectations remembers, for each key, how many creations and which
// deletions the informer has still to show (RCC-7). Creations are counted;
// deletions are known by the pod's key, so that the deletion mark and the
// removal of one pod count once.
type expectations struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	byKey map[string]*expectation
}

type expectation struct {
	add int
	del map[string]struct{}
	set time.Time
}

func newExpectations(c clock.PassiveClock) *expectations {
	return &expectations{clock: c, byKey: map[string]*expectation{}}
}

// satisfied says whether pods may be made or deleted (RCC-9, RCC-10). A key
// that is not known is satisfied.
func (e *expectations) satisfied(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.byKey[key]
	return x == nil || x.add <= 0 && len(x.del) == 0 || e.clock.Since(x.set) > expectationTTL
}

func (e *expectations) expectCreations(key string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.byKey[key] = &expectation{add: n, set: e.clock.Now()}
}

func (e *expectations) expectDeletions(key string, pods []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := &expectation{del: make(map[string]struct{}, len(pods)), set: e.clock.Now()}
	for _, p := range pods {
		x.del[p] = struct{}{}
	}
	e.byKey[key] = x
}

// created counts one creation that was seen, or that failed (RCC-8, ODD-15).
func (e *expectations) created(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byKey[key]; x != nil {
		x.add--
	}
}

// deleted is created for the deletion of a pod.
func (e *expectations) deleted(key, pod string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byKey[key]; x != nil {
		delete(x.del, pod)
	}
}

func (e *expectations) forget(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byKey, key)
}
