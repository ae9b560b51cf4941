package consistency

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Cache is an informer's store, as far as it is needed here.
type Cache interface {
	// LastStoreSyncResourceVersion is the newest version that it has; "" if unknown.
	LastStoreSyncResourceVersion() string
}

// Store is safe for concurrent use.
type Store struct {
	caches map[string]Cache

	mu     sync.Mutex
	writes map[string]*written // by owner
}

type written struct {
	uid      types.UID
	versions map[string]string // by resource
}

// New returns a store over the caches, by resource, such as pods.
func New(caches map[string]Cache) *Store {
	return &Store{caches: caches, writes: map[string]*written{}}
}

// Wrote remembers that obj, of the resource, was written for the owner. The key
// of the owner is its namespace/name.
func (s *Store) Wrote(key string, owner types.UID, resource string, obj metav1.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writes[key]
	if w == nil || w.uid != owner {
		w = &written{uid: owner, versions: map[string]string{}}
		s.writes[key] = w
	}
	version := obj.GetResourceVersion()
	if old, there := w.versions[resource]; there {
		if order, err := resourceversion.CompareResourceVersion(old, version); err == nil && order >= 0 {
			return
		}
	}
	w.versions[resource] = version
}

// Forget drops what was written for the key.
func (s *Store) Forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.writes, key)
}

// Ready returns an error that names the resource whose cache is behind what was
// written for the key. When all have it, the record is dropped.
func (s *Store) Ready(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writes[key]
	if w == nil {
		return nil
	}
	for resource, wrote := range w.versions {
		c := s.caches[resource]
		if c == nil {
			continue
		}
		read := c.LastStoreSyncResourceVersion()
		if read == "" {
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(wrote, read); err == nil && order > 0 {
			return fmt.Errorf("the cache of %s is at version %s and %s was written", resource, read, wrote)
		}
	}
	delete(s.writes, key)
	return nil
}
