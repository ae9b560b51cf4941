package storage

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
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
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"pintle.dev/pintle/kernel/api/storage/conformance"
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
	return newFixtureOn(t, bus.Config{}, opts)
}

func newFixtureOn(t testing.TB, cfg bus.Config, opts Options) *fixture {
	t.Helper()
	st, err := store.Open(store.Config{Dir: t.TempDir(), MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.New(cfg, st)
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

// over makes the pods storage with a transformer. As in upstream's own tests of its storage, what is corrupt is what
// the suite says is: TestCorruptObjects has the rest.
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
	s.codec, s.transformer = testCodec(), transformer
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

// readsOnce is a storagetesting.CallsValidation: no object of a list is decrypted twice.
func (f *fixture) readsOnce(t *testing.T, _, processed uint64) {
	t.Helper()
	if reads := f.transformer.GetReadsAndReset(); reads > processed {
		t.Errorf("%d reads of %d objects", reads, processed)
	}
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

// UpdatePrefixTransformer implements storagetesting.InterfaceWithPrefixTransformer.
func (f *prefixFixture) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	changed := *f.transformer
	return f.replace(modify(&changed))
}

// UpdateTransformer implements storagetesting.InterfaceWithTransformerOverride.
func (f *prefixFixture) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	return f.replace(modify(f.transformer))
}

// replace puts another storage in the place, since one that wrote objects itself serves them from memory and rightly
// does not notice a broken transformer.
func (f *prefixFixture) replace(transformer value.Transformer) (back func()) {
	original := f.fixture.Storage
	f.fixture.Storage = f.over(f.t, transformer)
	return func() {
		f.fixture.Storage.Destroy()
		original.cache.clear()
		f.fixture.Storage = original
	}
}

// failing makes every read fail to be decrypted, or to be decoded.
type failing struct {
	value.Transformer
	runtime.Codec
	now atomic.Bool
}

var errSynthetic = errors.New("synthetic error")

func (c *failing) TransformFromStorage(ctx context.Context, data []byte, v value.Context) ([]byte, bool, error) {
	if c.now.Load() {
		return nil, false, errSynthetic
	}
	return c.Transformer.TransformFromStorage(ctx, data, v)
}

func (c *failing) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if c.now.Load() {
		return nil, nil, errSynthetic
	}
	return c.Codec.Decode(data, defaults, into)
}

// undecryptable and undecodable put a failing transformer or codec into the storage.
func (f *fixture) undecryptable() (set func(bool)) {
	broken := &failing{Transformer: f.Storage.transformer}
	f.Storage.transformer = broken
	return broken.now.Store
}

func (f *fixture) undecodable() (set func(bool)) {
	broken := &failing{Codec: f.Storage.codec}
	f.Storage.codec = broken
	return broken.now.Store
}

// TestUpstream runs the suite that upstream's own storages run (k8s.io/apiserver/pkg/storage/testing): all of it, see
// TestNothingOfUpstreamIsMissing. Where the suite can count what is asked of a backend there is no backend to count.
func TestUpstream(t *testing.T) {
	plain := func(run func(context.Context, *testing.T, storage.Interface)) func(context.Context, *testing.T, *fixture) {
		return func(ctx context.Context, t *testing.T, f *fixture) { run(ctx, t, f) }
	}
	prefixed := func(run func(context.Context, *testing.T, storagetesting.InterfaceWithPrefixTransformer)) func(context.Context, *testing.T, *fixture) {
		return func(ctx context.Context, t *testing.T, f *fixture) { run(ctx, t, &prefixFixture{f, t}) }
	}
	corrupt := &corruptError{err: errors.New("bits flipped")}
	tests := map[string]func(context.Context, *testing.T, *fixture){
		"Create": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestCreate(ctx, t, f, f.validate)
		},
		"List": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestList(ctx, t, f, f.compact, false, nil)
		},
		"ConsistentList": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestConsistentList(ctx, t, f, f.increaseRV, false, true, false)
		},
		"GetListNonRecursive": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, f.increaseRV, f)
		},
		"ListContinuation": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListContinuation(ctx, t, f, f.readsOnce)
		},
		"ListPaginationRareObject": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, f, f.readsOnce)
		},
		"ListContinuationWithFilter": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, f, f.readsOnce)
		},
		"ListInconsistentContinuation": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, f, f.compact)
		},
		"ListResourceVersionMatch": prefixed(storagetesting.RunTestListResourceVersionMatch),
		"GuaranteedUpdate": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestGuaranteedUpdate(ctx, t, &prefixFixture{f, t}, f.validate)
		},
		"GuaranteedUpdateChecksStoredData": prefixed(storagetesting.RunTestGuaranteedUpdateChecksStoredData),
		"TransformationFailure":            prefixed(storagetesting.RunTestTransformationFailure),
		"Stats": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestStats(ctx, t, f, f.codec, f.transformer, false)
		},
		"StatsWithSizes": func(ctx context.Context, t *testing.T, f *fixture) {
			if err := f.EnableResourceSizeEstimation(func(context.Context) ([]string, error) { return nil, nil }); err != nil {
				t.Fatal(err)
			}
			storagetesting.RunTestStats(ctx, t, f, f.codec, f.transformer, true)
		},
		"CompactRevision": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestCompactRevision(ctx, t, f, f.increaseRV, f.compact)
		},

		"UnsafeDeleteWithConflict": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, f, f.undecodable())
		},
		"UnsafeDeleteUndecryptable": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, f, f.undecryptable())
		},
		"UnsafeDeleteUndecodable": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, f, f.undecodable())
		},
		"UnsafeDeleteWithSuggestion": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, f)
		},
		"GetListWithErrorAggregation": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestGetListWithErrorAggregation(ctx, t, &prefixFixture{f, t}, corrupt)
		},
		"GetListWithoutErrorAggregation": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestGetListWithoutErrorAggregation(ctx, t, &prefixFixture{f, t}, corrupt.err)
		},
		"WatchWithUnsafeDelete": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestWatchWithUnsafeDelete(ctx, t, &prefixFixture{f, t}, corrupt)
		},

		"WatchFromZero": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestWatchFromZero(ctx, t, f, f.compact)
		},
		"WatchError":         prefixed(storagetesting.RunTestWatchError),
		"WatchContextCancel": plain(storagetesting.RunTestWatchContextCancel),
		"ProgressNotify": func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunOptionalTestProgressNotify(ctx, t, f, f.increaseRV)
		},
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
	for name, run := range conformance.Plain() {
		tests[name] = plain(run)
	}
	for name, run := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			t.Cleanup(cancel)
			unsafe := name != "GetListWithoutErrorAggregation"
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, unsafe)
			opts := Options{ProgressInterval: time.Second}
			if strings.HasPrefix(name, "WatchBookmarks") {
				opts.BookmarkInterval = time.Second
			}
			run(ctx, t, newFixture(t, opts))
		})
	}
}

// A new version of the suite cannot add a test that does not run here: every exported function of the package's source
// that runs something is named in the tests of this package, or in conformance.
func TestNothingOfUpstreamIsMissing(t *testing.T) {
	t.Parallel()
	exported := map[string]bool{}
	for _, file := range parse(t, upstreamDir(t)) {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Run") {
				exported[f.Name.Name] = true
			}
		}
	}
	if len(exported) < 60 {
		t.Fatalf("only %d functions found", len(exported))
	}
	for _, file := range append(parse(t, "."), parse(t, "conformance")...) {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "storagetesting" {
					delete(exported, s.Sel.Name)
				}
			}
			return true
		})
	}
	for name := range exported {
		t.Errorf("%s of k8s.io/apiserver/pkg/storage/testing does not run", name)
	}
}

// upstreamDir is where the suite's source is.
func upstreamDir(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/apiserver/pkg/storage/testing").CombinedOutput()
	if err != nil {
		t.Skipf("the suite's source cannot be found: %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func parse(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
