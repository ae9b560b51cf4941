package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"pintle.dev/pintle/kernel/store"
)

// Config describes one resource's storage.
type Config struct {
	// Codec encodes for and decodes from the store.
	Codec runtime.Codec
	// Transformer encrypts values at rest. Default: none.
	Transformer value.Transformer
	// Prefix begins all keys, e.g. /registry; ResourcePrefix, which begins with a slash, comes after it.
	Prefix, ResourcePrefix string
	GroupResource          schema.GroupResource
	NewFunc, NewListFunc   func() runtime.Object
	// Trigger names fields whose exact selectors watches are indexed by, with the function that gives an object's
	// value of the field.
	Trigger storage.IndexerFuncs
}

// Storage is one resource's storage.Interface.
type Storage struct {
	backend     *Backend
	store       *store.Store
	codec       runtime.Codec
	transformer value.Transformer
	versioner   storage.Versioner
	cache       *objectCache
	encodings   *encodings
	// envelope is around what is stored in protobuf, nil for other formats.
	envelope *envelope
	// specs are of pods that may be bound, nil for other resources.
	specs *podSpecs

	prefix, resourcePrefix string
	groupResource          schema.GroupResource
	newFunc, newListFunc   func() runtime.Object
	trigger                storage.IndexerFuncs
	triggerFields          []string

	// unsafeDeletes: objects that cannot be read are named, and may be deleted (corrupt.go).
	unsafeDeletes bool

	sizes atomic.Bool

	// encoded is the number of watches whose events somebody encodes, and may share.
	encoded atomic.Int64

	mu sync.Mutex
	// replayed leads to what watches share of events that are read from the history.
	replayed   replayed
	watches    map[*watcher]struct{}
	selections map[string]*selection
}

var _ storage.Interface = (*Storage)(nil)

// New makes a resource's storage.
func (b *Backend) New(c Config) (*Storage, error) {
	switch {
	case c.Codec == nil:
		return nil, fmt.Errorf("storage of %s: no codec", c.GroupResource)
	case c.NewFunc == nil:
		return nil, fmt.Errorf("storage of %s: no NewFunc", c.GroupResource)
	case c.ResourcePrefix == "" || c.ResourcePrefix == "/" || c.ResourcePrefix[0] != '/':
		return nil, fmt.Errorf("storage of %s: resource prefix %q must begin with a slash and go on", c.GroupResource, c.ResourcePrefix)
	}
	if c.Transformer == nil {
		c.Transformer = identity.NewEncryptCheckTransformer()
	}
	unsafeDeletes := utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
	if unsafeDeletes {
		c.Codec, c.Transformer = corruptCodec{c.Codec}, corruptTransformer{c.Transformer}
	}
	envelope := envelopeOf(c.Codec, c.NewFunc())
	specs := newPodSpecs(c.NewFunc(), envelope)
	return &Storage{
		backend:        b,
		store:          b.store,
		unsafeDeletes:  unsafeDeletes,
		codec:          c.Codec,
		transformer:    c.Transformer,
		versioner:      storage.APIObjectVersioner{},
		cache:          newObjectCache(b.budget, specs),
		encodings:      newEncodings(b.encodings),
		envelope:       envelope,
		specs:          specs,
		prefix:         pathPrefix(c.Prefix),
		resourcePrefix: c.ResourcePrefix,
		groupResource:  c.GroupResource,
		newFunc:        c.NewFunc,
		newListFunc:    c.NewListFunc,
		trigger:        c.Trigger,
		triggerFields:  slices.Sorted(maps.Keys(c.Trigger)),
		watches:        map[*watcher]struct{}{},
		selections:     map[string]*selection{},
	}, nil
}

// Destroy ends the storage's watches and frees its cache.
func (s *Storage) Destroy() {
	s.mu.Lock()
	watches := slices.Collect(maps.Keys(s.watches))
	s.mu.Unlock()
	for _, w := range watches {
		w.Stop()
	}
	for _, w := range watches {
		<-w.ended
	}
	s.cache.close()
	s.encodings.clear()
}

// Versioner implements storage.Interface.
func (s *Storage) Versioner() storage.Versioner { return s.versioner }

// ReadinessCheck implements storage.Interface.
func (s *Storage) ReadinessCheck() error {
	if err := s.store.Err(); errors.Is(err, store.ErrClosed) {
		return storage.ErrStorageNotReady
	}
	return nil
}

// GetCurrentResourceVersion implements storage.Interface.
func (s *Storage) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return s.store.CurrentRevision(), nil
}

// CompactRevision implements storage.Interface.
func (s *Storage) CompactRevision() int64 { return int64(s.store.CompactedRevision()) }

// EnableResourceSizeEstimation implements storage.Interface. The store knows the sizes, so keys is not asked.
func (s *Storage) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	if keys == nil {
		return errors.New("KeysFunc cannot be nil")
	}
	if !s.sizes.CompareAndSwap(false, true) {
		return errors.New("resourceSizeEstimator already enabled")
	}
	return nil
}

// Stats implements storage.Interface.
func (s *Storage) Stats(context.Context) (storage.Stats, error) {
	prefix, err := s.key(s.resourcePrefix, true)
	if err != nil {
		return storage.Stats{}, err
	}
	keys, bytes := s.store.Size(prefix)
	stats := storage.Stats{ObjectCount: keys}
	if s.sizes.Load() && keys > 0 {
		stats.EstimatedAverageObjectSizeBytes = bytes / keys
	}
	return stats, nil
}

// key gives the store's key of a key of storage.Interface.
func (s *Storage) key(key string, recursive bool) (string, error) {
	key, err := storage.PrepareKey(s.resourcePrefix, key, recursive)
	if err != nil {
		return "", err
	}
	return s.prefix + strings.TrimPrefix(key, "/"), nil
}

// dataContext authenticates an encrypted value with its key.
type dataContext string

// AuthenticatedData implements value.Context.
func (d dataContext) AuthenticatedData() []byte { return []byte(d) }

// open decrypts a stored value. stale asks for a write with the current key. The error is the transformer's.
func (s *Storage) open(ctx context.Context, key string, stored []byte) (data []byte, stale bool, err error) {
	return s.transformer.TransformFromStorage(ctx, stored, dataContext(key))
}

// seal encrypts an encoded object.
func (s *Storage) seal(ctx context.Context, key string, data []byte) ([]byte, error) {
	stored, err := s.transformer.TransformToStorage(ctx, data, dataContext(key))
	if err != nil {
		return nil, storage.NewInternalError(err)
	}
	return stored, nil
}

// decode decodes data into a new object with the revision as its resource version.
func (s *Storage) decode(data []byte, revision uint64) (runtime.Object, error) {
	obj, err := s.decoded(data)
	if err != nil {
		return nil, err
	}
	if err := s.versioner.UpdateObject(obj, revision); err != nil {
		return nil, fmt.Errorf("setting resource version %d: %w", revision, err)
	}
	return obj, nil
}

// decoded decodes data into a new object. A typed one does not name its kind: who sends it does, and among the items of
// a list it is not sent.
func (s *Storage) decoded(data []byte) (runtime.Object, error) {
	obj, _, err := s.codec.Decode(data, nil, s.newFunc())
	if err != nil {
		return nil, err
	}
	if _, ok := obj.(runtime.Unstructured); !ok {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return obj, nil
}

// object gives the immutable object of a stored value, from the cache or decoded and cached.
func (s *Storage) object(ctx context.Context, key string, revision uint64, stored []byte) (runtime.Object, error) {
	if obj, ok := s.cache.get(key, revision); ok {
		return obj, nil
	}
	data, _, err := s.open(ctx, key, stored)
	if err != nil {
		return nil, storage.NewInternalError(err)
	}
	obj, err := s.decode(data, revision)
	if err != nil {
		return nil, err
	}
	s.keep(key, revision, obj, data)
	return obj, nil
}

// keep keeps an object, and what can be of use of data, which it was decoded from or is encoded as.
func (s *Storage) keep(key string, revision uint64, obj runtime.Object, data []byte) {
	if s.cache.put(key, revision, obj, len(data)) {
		s.specs.note(revision, obj, data)
	}
}

// attachment goes with an event from the request that wrote it to the watches.
type attachment struct {
	// owner made the objects; another storage of the same keys (another version of a custom resource) decodes itself.
	owner *Storage
	// obj is the object after the event, or at a delete the last one with the delete's resource version.
	obj runtime.Object
	// previous is the object before the event.
	previous runtime.Object
	// data is the encoding of obj but for its resource version; nil: it may be another's, such as one without the
	// defaults that decoding sets, or it is not what the store keeps.
	data []byte
	sharings
}

// topics are the topics of the objects' trigger fields, nil when the resource has none.
func (s *Storage) topics(objs ...runtime.Object) []string {
	if len(s.trigger) == 0 {
		return nil
	}
	topics := make([]string, 0, len(objs)*len(s.triggerFields))
	for _, obj := range objs {
		if obj == nil {
			continue
		}
		for _, field := range s.triggerFields {
			if topic := topicOf(field, s.trigger[field](obj)); !slices.Contains(topics, topic) {
				topics = append(topics, topic)
			}
		}
	}
	return topics
}

func topicOf(field, value string) string { return field + "=" + value }

// commitError gives a store error the form that API handlers know.
func commitError(err error) error {
	var disk *store.DiskError
	var large *store.TooLargeError
	switch {
	case errors.As(err, &disk):
		return apierrors.NewInternalError(err)
	case errors.As(err, &large):
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	case errors.Is(err, store.ErrClosed):
		return apierrors.NewServiceUnavailable("the store is shutting down")
	}
	return err
}
