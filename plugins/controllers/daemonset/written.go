package daemonset

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// written remembers the newest resource version that was written for each set,
// of pods and of the set itself. Until the caches have it, they show a past.
type written struct {
	pods, sets cache.Store

	mu    sync.Mutex
	byKey map[string]*versions
}

type versions struct {
	owner     types.UID
	pods, set string
}

func newWritten(pods, sets cache.Store) *written {
	return &written{pods: pods, sets: sets, byKey: map[string]*versions{}}
}

// pod notes a version of a pod of the set.
func (w *written) pod(key string, owner types.UID, version string) {
	w.note(key, owner, func(v *versions) { v.pods = newer(v.pods, version) })
}

// set notes a version of the set.
func (w *written) set(key string, owner types.UID, version string) {
	w.note(key, owner, func(v *versions) { v.set = newer(v.set, version) })
}

func (w *written) note(key string, owner types.UID, change func(*versions)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.byKey[key]
	if v == nil || v.owner != owner {
		v = &versions{owner: owner}
		w.byKey[key] = v
	}
	change(v)
}

// behind is the error of a sync that comes too early: a cache has not seen what
// was written last for the set.
func (w *written) behind(key string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.byKey[key]
	if v == nil {
		return nil
	}
	for _, of := range []struct {
		resource string
		store    cache.Store
		version  string
	}{{"pods", w.pods, v.pods}, {"daemonsets.apps", w.sets, v.set}} {
		read := of.store.LastStoreSyncResourceVersion()
		if read == "" || of.version == "" {
			continue // the cache does not say
		}
		// What cannot be compared holds nothing back.
		if c, err := resourceversion.CompareResourceVersion(of.version, read); err == nil && c > 0 {
			return queue.Quiet(fmt.Errorf("read version: %s is not as new as written version: %s for group resource %s", read, of.version, of.resource))
		}
	}
	delete(w.byKey, key)
	return nil
}

func (w *written) forget(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byKey, key)
}

func newer(a, b string) string {
	if c, err := resourceversion.CompareResourceVersion(a, b); err == nil && c >= 0 {
		return a
	}
	return b
}
