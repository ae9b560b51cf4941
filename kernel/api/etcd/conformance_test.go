package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/feature"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/kernel/api/storage/conformance"
)

// server is the etcd process that the package's tests share, one after the
// other; nil where it was not built.
var server *cluster.Etcd

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "pintle-etcd")
		if err == nil {
			defer os.RemoveAll(dir)
			server, err = cluster.StartEtcd(context.Background(), nil, dir, false)
		}
		switch {
		case err == nil:
			defer server.Stop()
		case !errors.Is(err, cluster.ErrNoEtcd):
			fmt.Fprintln(os.Stderr, "FAIL:", err)
			return 1
		}
		return m.Run()
	}())
}

// emptied gives the shared etcd, or one of the test's own, with a client; it
// holds nothing.
func emptied(t testing.TB, own bool) (*cluster.Etcd, *clientv3.Client) {
	t.Helper()
	if server == nil {
		t.Skip(cluster.ErrNoEtcd)
	}
	server := server
	if own {
		var err error
		if server, err = cluster.StartEtcd(t.Context(), nil, t.TempDir(), false); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Stop)
	}
	client, err := server.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if _, err := client.Delete(context.Background(), "\x00", clientv3.WithFromKey()); err != nil {
		t.Fatal(err)
	}
	return server, client
}

// switched is a transformer that a test can replace while a storage uses it.
type switched struct {
	atomic.Pointer[value.Transformer]
}

func (s *switched) TransformFromStorage(ctx context.Context, data []byte, c value.Context) ([]byte, bool, error) {
	return (*s.Load()).TransformFromStorage(ctx, data, c)
}

func (s *switched) TransformToStorage(ctx context.Context, data []byte, c value.Context) ([]byte, error) {
	return (*s.Load()).TransformToStorage(ctx, data, c)
}

func (s *switched) set(t value.Transformer) { s.Store(&t) }

// fixture is a pods storage on etcd. It implements
// storagetesting.InterfaceWithPrefixTransformer.
type fixture struct {
	storage.Interface
	client      *clientv3.Client
	codec       runtime.Codec
	prefix      string
	transformer *storagetesting.PrefixTransformer
	switched    *switched
}

func (f *fixture) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	changed := *f.transformer
	f.switched.set(modify(&changed))
	return func() { f.switched.set(f.transformer) }
}

// UpdateTransformer implements storagetesting.InterfaceWithTransformerOverride.
func (f *fixture) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	f.switched.set(modify(f.transformer))
	return func() { f.switched.set(f.transformer) }
}

var errBroken = errors.New("bits flipped")

// broken is a transformer that cannot read.
type broken struct{ value.Transformer }

func (broken) TransformFromStorage(context.Context, []byte, value.Context) ([]byte, bool, error) {
	return nil, false, errBroken
}

func (f *fixture) setFailing(failing bool) {
	f.switched.set(f.transformer)
	if failing {
		f.switched.set(broken{f.transformer})
	}
}

func podAttributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod, ok := obj.(*example.Pod)
	if !ok {
		return nil, nil, errors.New("not a pod")
	}
	return pod.Labels, fields.Set{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "spec.nodeName": pod.Spec.NodeName,
		"spec.restartPolicy": string(pod.Spec.RestartPolicy), "status.phase": string(pod.Status.Phase),
	}, nil
}

// newFixture opens a backend on an empty etcd and makes a storage by it: with
// the cacher as the product has it, or what the cacher stands on.
func newFixture(t *testing.T, cached, namespaced, own bool) *fixture {
	t.Helper()
	server, client := emptied(t, own)
	f := &fixture{
		client: client, prefix: "/registry", switched: &switched{},
		transformer: storagetesting.NewPrefixTransformer([]byte("test!"), false),
	}
	f.switched.set(f.transformer)
	backend, err := Open(t.Context(), Config{Servers: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	f.codec = apitesting.TestCodec(serializer.NewCodecFactory(scheme), examplev1.SchemeGroupVersion)
	config := backend.config.ForResource(schema.GroupResource{Resource: "pods"})
	config.Codec, config.Transformer = f.codec, f.switched
	newFunc := func() runtime.Object { return &example.Pod{} }
	newListFunc := func() runtime.Object { return &example.PodList{} }
	if !cached {
		// Keys in errors are compared with the keys asked for.
		config.Prefix, f.prefix = "", "/"
		s, destroy, err := backend.raw(config, newFunc, newListFunc, "/pods/")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(destroy)
		f.Interface = s
		return f
	}
	key := func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", obj) }
	if !namespaced {
		key = func(obj runtime.Object) (string, error) { return storage.NoNamespaceKeyFunc("/pods/", obj) }
	}
	if f.Interface, _, err = backend.Decorator(config, "/pods/", key, newFunc, newListFunc, podAttributes, nil, nil); err != nil {
		t.Fatal(err)
	}
	// Upstream finds out beside its other work whether etcd tells of its progress, without which consistent reads
	// pass the cacher by.
	for deadline := time.Now().Add(2 * time.Minute); f.ReadinessCheck() != nil || !feature.DefaultFeatureSupportChecker.Supports(storage.RequestWatchProgress); {
		if time.Now().After(deadline) {
			t.Fatal("the storage did not become ready")
		}
		time.Sleep(5 * time.Millisecond)
	}
	return f
}

// compact compacts etcd at a resource version and waits until the storage has noticed.
func (f *fixture) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	revision, err := f.Versioner().ParseResourceVersion(resourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	last, _, _, err := etcd3.Compact(ctx, f.client, 0, int64(revision))
	if err != nil {
		// Another compactor's count was met.
		_, _, _, err = etcd3.Compact(ctx, f.client, last, int64(revision))
	}
	if err != nil {
		t.Fatal(err)
	}
	for f.CompactRevision() < int64(revision) {
		if ctx.Err() != nil {
			t.Fatalf("the storage knows of a compaction at %d, not at %d", f.CompactRevision(), revision)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (f *fixture) increaseRV(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	out, err := f.client.Put(ctx, "increaseRV", "ok")
	if err != nil {
		t.Fatal(err)
	}
	return out.Header.Revision
}

// validate checks that what is stored has neither resource version nor self link.
func (f *fixture) validate(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	out, err := f.client.Get(ctx, path.Join(f.prefix, key))
	if err != nil || len(out.Kvs) != 1 {
		t.Fatalf("reading %s: %v, %d keys", key, err, len(out.Kvs))
	}
	obj, err := runtime.Decode(f.codec, out.Kvs[0].Value[len("test!"):])
	if err != nil {
		t.Fatalf("decoding %s: %v", key, err)
	}
	if pod := obj.(*example.Pod); pod.ResourceVersion != "" || pod.SelfLink != "" {
		t.Errorf("stored with resource version %q and self link %q", pod.ResourceVersion, pod.SelfLink)
	}
}

type suite = map[string]func(ctx context.Context, t *testing.T, f *fixture)

func plain(run func(context.Context, *testing.T, storage.Interface)) func(context.Context, *testing.T, *fixture) {
	return func(ctx context.Context, t *testing.T, f *fixture) { run(ctx, t, f.Interface) }
}

func prefixed(run func(context.Context, *testing.T, storagetesting.InterfaceWithPrefixTransformer)) func(context.Context, *testing.T, *fixture) {
	return func(ctx context.Context, t *testing.T, f *fixture) { run(ctx, t, f) }
}

// with adds tests that need nothing but a storage to others.
func with(plainly map[string]func(context.Context, *testing.T, storage.Interface), others suite) suite {
	for name, run := range plainly {
		others[name] = plain(run)
	}
	return others
}

// both are the tests of k8s.io/apiserver/pkg/storage/testing that hold with the
// cacher and without.
var both = with(conformance.Plain(), suite{
	"Create": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestCreate(ctx, t, f.Interface, f.validate)
	},
	"GetListNonRecursive": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestGetListNonRecursive(ctx, t, f.increaseRV, f.Interface)
	},
	"ListContinuation": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListContinuation(ctx, t, f.Interface, uncounted)
	},
	"ListPaginationRareObject": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListPaginationRareObject(ctx, t, f.Interface, uncounted)
	},
	"ListContinuationWithFilter": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListContinuationWithFilter(ctx, t, f.Interface, uncounted)
	},
	"StatsWithSizes": func(ctx context.Context, t *testing.T, f *fixture) {
		// The cacher's storage has this switched on by upstream's gate already.
		_ = f.EnableResourceSizeEstimation(func(ctx context.Context) ([]string, error) {
			out, err := f.client.Get(ctx, path.Join(f.prefix, "pods")+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err != nil {
				return nil, err
			}
			keys := make([]string, len(out.Kvs))
			for i, kv := range out.Kvs {
				keys[i] = string(kv.Key)
			}
			return keys, nil
		})
		storagetesting.RunTestStats(ctx, t, f.Interface, f.codec, f.transformer, true)
	},
	"SendInitialEventsBackwardCompatibility": plain(storagetesting.RunSendInitialEventsBackwardCompatibility),
})

// uncounted: how often etcd is asked is upstream's business.
func uncounted(*testing.T, uint64, uint64) {}

// withoutCacher are the tests that upstream itself does not run on its cacher,
// most of them since they look at the bytes behind it, and those where the two
// differ by design.
var withoutCacher = suite{
	"Stats": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestStats(ctx, t, f.Interface, f.codec, f.transformer, false)
	},
	"List": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestList(ctx, t, f.Interface, f.compact, false, nil)
	},
	"ConsistentList": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestConsistentList(ctx, t, f.Interface, f.increaseRV, false, true, false)
	},
	"CompactRevision": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestCompactRevision(ctx, t, f.Interface, f.increaseRV, f.compact)
	},
	"ListInconsistentContinuation": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestListInconsistentContinuation(ctx, t, f.Interface, f.compact)
	},
	"ListResourceVersionMatch": prefixed(storagetesting.RunTestListResourceVersionMatch),
	"GuaranteedUpdate": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestGuaranteedUpdate(ctx, t, f, f.validate)
	},
	"GuaranteedUpdateChecksStoredData": prefixed(storagetesting.RunTestGuaranteedUpdateChecksStoredData),
	"TransformationFailure": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestTransformationFailure(ctx, t, f)
	},
	"DeleteWithConflictAndMissingExpectedTransformOrDecodeError": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, f.Interface, f.setFailing)
	},
	"DeleteExpectedTransformOrDecodeError": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, f.Interface, f.setFailing)
	},
	"DeleteWithSuggestionAndMissingExpectedTransformOrDecodeError": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, f.Interface)
	},
	"WatchWithUnsafeDelete": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestWatchWithUnsafeDelete(ctx, t, f, errBroken)
	},
	"WatchFromZero": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestWatchFromZero(ctx, t, f.Interface, f.compact)
	},
	"WatchError":         prefixed(storagetesting.RunTestWatchError),
	"WatchContextCancel": plain(storagetesting.RunTestWatchContextCancel),
	"ProgressNotify": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunOptionalTestProgressNotify(ctx, t, f.Interface, f.increaseRV)
	},
	"WatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, f.Interface, false)
	},
	"WatchSemantics":                     plain(storagetesting.RunWatchSemantics),
	"WatchSemanticInitialEventsExtended": plain(storagetesting.RunWatchSemanticInitialEventsExtended),
	"WatchListMatchSingle":               plain(storagetesting.RunWatchListMatchSingle),
	"WatchErrorIsBlockingFurtherEvents":  prefixed(storagetesting.RunWatchErrorIsBlockingFurtherEvents),
}

// compacting are the tests that compact, after which others would not find the
// revisions that they begin at.
var compacting = map[string]bool{"List": true, "CompactRevision": true, "ListInconsistentContinuation": true, "WatchFromZero": true}

// withCacher are the tests whose expectation is another with the cacher.
var withCacher = suite{
	"ConsistentList": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestConsistentList(ctx, t, f.Interface, f.increaseRV, true, true, true)
	},
	"WatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, f *fixture) {
		storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, f.Interface, true)
	},
	"WatchBookmarksWithCorrectResourceVersion": plain(storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion),
}

// TestUpstream runs the suite that upstream's own storages run, on what this
// package makes of etcd. Not run are RunTestGetListWithErrorAggregation and
// RunTestGetListWithoutErrorAggregation: they inject an error beneath what
// marks errors of corrupt objects, which only etcd3's own tests can reach.
func TestUpstream(t *testing.T) {
	for _, kind := range []struct {
		name   string
		cached bool
		suites []suite
	}{{"cached", true, []suite{both, withCacher}}, {"raw", false, []suite{both, withoutCacher}}} {
		for _, tests := range kind.suites {
			for name, run := range tests {
				t.Run(kind.name+"/"+name, func(t *testing.T) {
					if name == "TransformationFailure" {
						// Its words are those of storages that cannot delete what is corrupt.
						featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, false)
					}
					ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
					t.Cleanup(cancel)
					run(ctx, t, newFixture(t, kind.cached, name != "ClusterScopedWatch", compacting[name]))
				})
			}
		}
	}
}
