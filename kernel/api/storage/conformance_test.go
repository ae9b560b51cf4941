package storage

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"

	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

// fixture is a pods storage over a store of its own.
type fixture struct {
	*Storage
	store       *store.Store
	backend     *Backend
	transformer *storagetesting.PrefixTransformer
}

func testCodec() runtime.Codec {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	return apitesting.TestCodec(serializer.NewCodecFactory(scheme), examplev1.SchemeGroupVersion)
}

func newFixture(t testing.TB, opts Options) *fixture {
	t.Helper()
	st, err := store.Open(store.Config{Dir: t.TempDir(), MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.New(bus.Config{}, st)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- st.Run(ctx) }()
	backend, err := NewBackend(st, b, opts)
	if err != nil {
		t.Fatal(err)
	}
	transformer := storagetesting.NewPrefixTransformer([]byte("test!"), false)
	f := &fixture{store: st, backend: backend, transformer: transformer}
	f.Storage = f.over(t, transformer)
	t.Cleanup(func() {
		f.Destroy()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// over makes the pods storage with a transformer.
func (f *fixture) over(t testing.TB, transformer value.Transformer) *Storage {
	t.Helper()
	s, err := f.backend.New(Config{
		Codec: testCodec(), Transformer: transformer, ResourcePrefix: "/pods/",
		GroupResource: schema.GroupResource{Resource: "pods"},
		NewFunc:       func() runtime.Object { return &example.Pod{} },
		NewListFunc:   func() runtime.Object { return &example.PodList{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *fixture) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	revision, err := f.versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.Compact(ctx, revision); err != nil {
		t.Fatal(err)
	}
	f.increaseRV(ctx, t) // the suite counts the key that etcd's compaction writes
}

func (f *fixture) increaseRV(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	revision, err := f.store.Commit(ctx, store.Write{Key: "increaseRV", Value: []byte("ok"), Expect: store.AnyRevision})
	if err != nil {
		t.Fatal(err)
	}
	return int64(revision)
}

// validate checks that what is stored has neither resource version nor self link.
func (f *fixture) validate(_ context.Context, t *testing.T, key string) {
	t.Helper()
	kv, _, err := f.store.Get(key)
	if err != nil {
		t.Fatalf("reading %s: %v", key, err)
	}
	obj, err := runtime.Decode(f.codec, kv.Value[len("test!"):])
	if err != nil {
		t.Fatalf("decoding %s: %v", key, err)
	}
	if pod := obj.(*example.Pod); pod.ResourceVersion != "" || pod.SelfLink != "" {
		t.Errorf("stored with resource version %q and self link %q", pod.ResourceVersion, pod.SelfLink)
	}
}

// prefixFixture implements storagetesting.InterfaceWithPrefixTransformer.
type prefixFixture struct {
	*fixture
	t *testing.T
}

// UpdatePrefixTransformer puts another storage in the place, since one that wrote objects itself serves them from
// memory and rightly does not notice a broken transformer.
func (f *prefixFixture) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	original := f.fixture.Storage
	changed := *f.transformer
	f.fixture.Storage = f.over(f.t, modify(&changed))
	return func() {
		f.fixture.Storage.Destroy()
		original.cache.clear()
		f.fixture.Storage = original
	}
}

// TestUpstream runs the suite that upstream's own storages run (k8s.io/apiserver/pkg/storage/testing).
//
// Not run: RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError,
// RunTestDeleteExpectedTransformOrDecodeError, RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError,
// RunTestGetListWithErrorAggregation, RunTestGetListWithoutErrorAggregation and RunTestWatchWithUnsafeDelete. They test
// the unsafe deletion of corrupt objects (feature gate AllowUnsafeMalformedObjectDeletion, alpha and off by default),
// which needs errors that upstream keeps to its etcd3 package. Validation of the number of backend reads is not
// applicable: there are none to count.
func TestUpstream(t *testing.T) {
	plain := func(run func(context.Context, *testing.T, storage.Interface)) func(context.Context, *testing.T, *fixture) {
		return func(ctx context.Context, t *testing.T, f *fixture) { run(ctx, t, f) }
	}
	prefixed := func(run func(context.Context, *testing.T, storagetesting.InterfaceWithPrefixTransformer)) func(context.Context, *testing.T, *fixture) {
		return func(ctx context.Context, t *testing.T, f *fixture) { run(ctx, t, &prefixFixture{f, t}) }
	}
	noCalls := func(*testing.T, uint64, uint64) {}
	tests := map[string]func(context.Context, *testing.T, *fixture){
		"Create": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestCreate(ctx, t, f, f.validate)
		},
		"CreateWithTTL":                              plain(storagetesting.RunTestCreateWithTTL),
		"CreateWithKeyExist":                         plain(storagetesting.RunTestCreateWithKeyExist),
		"Get":                                        plain(storagetesting.RunTestGet),
		"UnconditionalDelete":                        plain(storagetesting.RunTestUnconditionalDelete),
		"ConditionalDelete":                          plain(storagetesting.RunTestConditionalDelete),
		"DeleteWithSuggestion":                       plain(storagetesting.RunTestDeleteWithSuggestion),
		"DeleteWithSuggestionAndConflict":            plain(storagetesting.RunTestDeleteWithSuggestionAndConflict),
		"DeleteWithConflict":                         plain(storagetesting.RunTestDeleteWithConflict),
		"DeleteWithSuggestionOfDeletedObject":        plain(storagetesting.RunTestDeleteWithSuggestionOfDeletedObject),
		"ValidateDeletionWithSuggestion":             plain(storagetesting.RunTestValidateDeletionWithSuggestion),
		"ValidateDeletionWithOnlySuggestionValid":    plain(storagetesting.RunTestValidateDeletionWithOnlySuggestionValid),
		"PreconditionalDeleteWithSuggestion":         plain(storagetesting.RunTestPreconditionalDeleteWithSuggestion),
		"PreconditionalDeleteWithOnlySuggestionPass": plain(storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass),
		"List": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestList(ctx, t, f, f.compact, false, nil)
		},
		"ConsistentList": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestConsistentList(ctx, t, f, f.increaseRV, false, true, false)
		},
		"GetListNonRecursive": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, f.increaseRV, f)
		},
		"GetListRecursivePrefix": plain(storagetesting.RunTestGetListRecursivePrefix),
		"ListContinuation": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListContinuation(ctx, t, f, noCalls)
		},
		"ListPaginationRareObject": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, f, noCalls)
		},
		"ListContinuationWithFilter": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, f, noCalls)
		},
		"ListInconsistentContinuation": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, f, f.compact)
		},
		"ListResourceVersionMatch": prefixed(storagetesting.RunTestListResourceVersionMatch),
		"GuaranteedUpdate": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestGuaranteedUpdate(ctx, t, &prefixFixture{f, t}, f.validate)
		},
		"GuaranteedUpdateWithTTL":                   plain(storagetesting.RunTestGuaranteedUpdateWithTTL),
		"GuaranteedUpdateChecksStoredData":          prefixed(storagetesting.RunTestGuaranteedUpdateChecksStoredData),
		"GuaranteedUpdateWithConflict":              plain(storagetesting.RunTestGuaranteedUpdateWithConflict),
		"GuaranteedUpdateWithSuggestionAndConflict": plain(storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict),
		"TransformationFailure":                     prefixed(storagetesting.RunTestTransformationFailure),
		"Stats": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestStats(ctx, t, f, f.codec, f.transformer, false)
		},
		"StatsWithSizes": func(ctx context.Context, t *testing.T, f *fixture) {
			if err := f.EnableResourceSizeEstimation(func(context.Context) ([]string, error) { return nil, nil }); err != nil {
				t.Fatal(err)
			}
			storagetesting.RunTestStats(ctx, t, f, f.codec, f.transformer, true)
		},
		"ListPaging":          plain(storagetesting.RunTestListPaging),
		"NamespaceScopedList": plain(storagetesting.RunTestNamespaceScopedList),
		"CompactRevision": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestCompactRevision(ctx, t, f, f.increaseRV, f.compact)
		},
		"KeySchema": plain(storagetesting.RunTestKeySchema),

		"Watch": plain(storagetesting.RunTestWatch),
		"WatchFromZero": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestWatchFromZero(ctx, t, f, f.compact)
		},
		"DeleteTriggerWatch":                 plain(storagetesting.RunTestDeleteTriggerWatch),
		"WatchFromNonZero":                   plain(storagetesting.RunTestWatchFromNonZero),
		"DelayedWatchDelivery":               plain(storagetesting.RunTestDelayedWatchDelivery),
		"WatchError":                         prefixed(storagetesting.RunTestWatchError),
		"WatchContextCancel":                 plain(storagetesting.RunTestWatchContextCancel),
		"WatcherTimeout":                     plain(storagetesting.RunTestWatcherTimeout),
		"WatchDeleteEventObjectHaveLatestRV": plain(storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
		"WatchInitializationSignal":          plain(storagetesting.RunTestWatchInitializationSignal),
		"ProgressNotify": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunOptionalTestProgressNotify(ctx, t, f, f.increaseRV)
		},
		"ClusterScopedWatch":   plain(storagetesting.RunTestClusterScopedWatch),
		"NamespaceScopedWatch": plain(storagetesting.RunTestNamespaceScopedWatch),
		"WatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, f, true)
		},
		"WatchBookmarksWithCorrectResourceVersion": plain(storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion),
		"SendInitialEventsBackwardCompatibility":   plain(storagetesting.RunSendInitialEventsBackwardCompatibility),
		"WatchSemantics":                           plain(storagetesting.RunWatchSemantics),
		"WatchSemanticInitialEventsExtended":       plain(storagetesting.RunWatchSemanticInitialEventsExtended),
		"WatchListMatchSingle":                     plain(storagetesting.RunWatchListMatchSingle),
		"WatchErrorIsBlockingFurtherEvents":        prefixed(storagetesting.RunWatchErrorIsBlockingFurtherEvents),
	}
	for name, run := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			t.Cleanup(cancel)
			opts := Options{ProgressInterval: time.Second}
			if strings.HasPrefix(name, "WatchBookmarks") {
				opts.BookmarkInterval = time.Second
			}
			run(ctx, t, newFixture(t, opts))
		})
	}
}
