//go:build linux && (amd64 || arm64)

package crash

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	apistorage "k8s.io/apiserver/pkg/storage"

	"pintle.dev/pintle/kernel/api/storage"
	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

// Descriptors and environment of the child.
const (
	socketFD = 3 // the parent receives the listener of syncs here
	reportFD = 4 // lines of report

	envDir     = "CRASH_CHILD_DIR"
	envForm    = "CRASH_CHILD_FORM"
	envSeed    = "CRASH_CHILD_SEED"
	envWatches = "CRASH_CHILD_WATCHES" // a revision a watch, separated by commas
	envCompact = "CRASH_CHILD_COMPACT"
	envFirst   = "CRASH_CHILD_FIRST" // numbers of operations begin above it

	formStore = "store"
	formAPI   = "api"

	writers = 12
	keys    = 150
	prefix  = "/registry/configmaps/ns/"
)

// watched are the prefixes of the watches, by number. The second has a buffer that is too small.
var watched = []struct {
	prefix string
	buffer int
}{{"/registry/", 0}, {"/registry/", 3}, {prefix + "1/", 0}}

// common is what many values begin with, and are compressed by.
var common = func() []byte {
	var b []byte
	for i := range 400 {
		b = fmt.Appendf(b, "field-%d: %x\n", i, sum([]byte{byte(i), byte(i >> 8)}))
	}
	return b
}()

// config is the store's of both parent and child: small memory tables and frequent collections, so that a round has
// several.
func config(dir string) store.Config {
	return store.Config{Dir: dir, MemTableBytes: 4 << 20, MinFreeBytes: 1 << 20, Retention: -1, MaxHistory: -1,
		GCInterval: 150 * time.Millisecond, MaxGarbageBytes: 2 << 20, Dictionaries: map[string][]byte{prefix: common},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
}

func sum(value []byte) uint32 { return crc32.ChecksumIEEE(value) }

// reporter writes whole lines, each with one system call, so that a kill loses no part of one.
type reporter struct {
	mu sync.Mutex
	f  *os.File
}

func (r *reporter) line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := fmt.Fprintf(r.f, format+"\n", args...); err != nil {
		os.Exit(3) // the parent is gone
	}
}

// tap reports what the store publishes, after the bus has it.
type tap struct {
	*store.Store
	report *reporter
}

func (t tap) OnCommit(publish func([]*store.Event)) {
	t.Store.OnCommit(func(events []*store.Event) {
		var b strings.Builder
		for _, e := range events {
			fmt.Fprintf(&b, "E %d %s %s %d %d\n", e.Revision, e.Type, e.Key, e.PreviousRevision, sum(e.Value))
		}
		t.report.line("%s", strings.TrimSuffix(b.String(), "\n"))
		publish(events)
	})
}

// child writes until it is killed.
func child() error {
	report := &reporter{f: os.NewFile(reportFD, "report")}
	listener, err := announceSyncs()
	if err != nil {
		report.line("unsupported %v", err)
		return nil
	}
	if err := sendDescriptor(os.NewFile(socketFD, "socket"), listener); err != nil {
		return err
	}
	if os.Getenv(envForm) == formCareless {
		return writeCarelessly(os.Getenv(envDir))
	}
	st, err := store.Open(config(os.Getenv(envDir)))
	if err != nil {
		return err
	}
	b, err := bus.New(bus.Config{Recent: 64}, tap{st, report})
	if err != nil {
		return err
	}
	ctx := context.Background()
	seed, err := strconv.ParseUint(os.Getenv(envSeed), 10, 64)
	if err != nil {
		return err
	}
	var from []uint64
	for _, word := range strings.Split(os.Getenv(envWatches), ",") {
		at, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return err
		}
		from = append(from, at)
	}
	var wg sync.WaitGroup
	failed := make(chan error, 64)
	work := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				failed <- err
			}
		})
	}
	work(func() error { return st.Run(ctx) })
	if at, _ := strconv.ParseUint(os.Getenv(envCompact), 10, 64); at > 0 {
		work(func() error {
			report.line("K %d", at)
			return st.Compact(ctx, at)
		})
	}
	first, err := strconv.ParseInt(os.Getenv(envFirst), 10, 64)
	if err != nil {
		return err
	}
	switch form := os.Getenv(envForm); form {
	case formStore + historySuffix, formAPI + historySuffix:
		work(func() error { return writeHistory(ctx, form, st, b, report, seed, first) })
	case formStore:
		for i := range watched {
			work(func() error { return watchStore(ctx, b, report, i, from[i]) })
		}
		for i := range writers {
			work(func() error { return writeStore(ctx, st, report, rand.New(rand.NewPCG(seed, uint64(i)))) })
		}
	case formAPI:
		s, err := configMaps(st, b)
		if err != nil {
			return err
		}
		work(func() error { return watchAPI(ctx, s, report, from[0]) })
		for i := range writers {
			work(func() error { return writeAPI(ctx, s, report, rand.New(rand.NewPCG(seed, uint64(i)))) })
		}
	}
	return <-failed
}

// value makes a value of a size that is mostly small and sometimes one for the value log.
func value(rng *rand.Rand) []byte {
	var size int
	switch n := rng.IntN(100); {
	case n < 65:
		size = rng.IntN(1024)
	case n < 93:
		size = rng.IntN(16 << 10)
	case n < 98:
		size = rng.IntN(100 << 10)
	default:
		size = 250<<10 + rng.IntN(350<<10)
	}
	b := make([]byte, size)
	for i := 0; i+8 <= len(b); i += 8 {
		n := rng.Uint64()
		for j := range 8 {
			b[i+j] = 'a' + byte(n>>(8*j))%26
		}
	}
	if rng.IntN(2) == 0 {
		copy(b, common)
	}
	return b
}

func someKey(rng *rand.Rand) string {
	n := rng.IntN(keys)
	return fmt.Sprintf("%s%d/%03d", prefix, n%3, n)
}

func writeStore(ctx context.Context, st *store.Store, report *reporter, rng *rand.Rand) error {
	for {
		w := store.Write{Key: someKey(rng)}
		w.Expect, _ = st.Stat(w.Key)
		kind := store.Created
		switch n := rng.IntN(10); {
		case w.Expect != 0 && n < 3:
			w.Delete, kind = true, store.Deleted
		default:
			w.Value = value(rng)
			if w.Expect != 0 {
				kind = store.Updated
			}
			if n == 9 {
				w.TTL = 1 << 30
			}
		}
		w.OnRevision = func(revision uint64) {
			report.line("P %d %s %s %d %d", revision, kind, w.Key, w.Expect, sum(w.Value))
		}
		revision, err := st.Commit(ctx, w)
		if err == nil {
			report.line("A %d", revision)
		} else if !errors.As(err, new(*store.ConflictError)) {
			return fmt.Errorf("writing %s: %w", w.Key, err)
		}
	}
}

func watchStore(ctx context.Context, b *bus.Bus, report *reporter, number int, after uint64) error {
	s, err := b.Subscribe(bus.Options{Key: watched[number].prefix, Recursive: true, After: after, Buffer: watched[number].buffer})
	if err != nil {
		return fmt.Errorf("watch %d from %d: %w", number, after, err)
	}
	for {
		events, err := s.Next(ctx)
		if err != nil {
			return fmt.Errorf("watch %d: %w", number, err)
		}
		for _, e := range events {
			report.line("W %d %d %s %s %d", number, e.Revision, e.Type, e.Key, sum(e.Value))
		}
	}
}

// configMaps is the storage of core/v1 config maps as the API server has it.
func configMaps(st *store.Store, b *bus.Bus) (apistorage.Interface, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	scheme.AddKnownTypes(schema.GroupVersion{Version: runtime.APIVersionInternal}, &corev1.ConfigMap{}, &corev1.ConfigMapList{})
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	backend, err := storage.NewBackend(st, b, storage.Options{})
	if err != nil {
		return nil, err
	}
	options := backend.RESTOptionsGetter(backend.NewFactory(scheme, serializer.NewCodecFactory(scheme), runtime.ContentTypeProtobuf))
	rest, err := options.GetRESTOptions(schema.GroupResource{Resource: "configmaps"}, &corev1.ConfigMap{})
	if err != nil {
		return nil, err
	}
	s, _, err := rest.Decorator(rest.StorageConfig, "/"+rest.ResourcePrefix, nil,
		func() runtime.Object { return &corev1.ConfigMap{} }, func() runtime.Object { return &corev1.ConfigMapList{} }, nil, nil, nil)
	return s, err
}

func writeAPI(ctx context.Context, s apistorage.Interface, report *reporter, rng *rand.Rand) error {
	for {
		key := strings.TrimPrefix(someKey(rng), "/registry")
		parts := strings.Split(key, "/")
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: parts[3] + "-" + parts[4]}}
		fill := func(m *corev1.ConfigMap) {
			m.Data = map[string]string{"value": string(value(rng))}
			m.Data["sum"] = fmt.Sprint(sum([]byte(m.Data["value"])))
		}
		out := &corev1.ConfigMap{}
		var err error
		switch n := rng.IntN(10); {
		case n < 4:
			fill(object)
			err = s.Create(ctx, key, object, out, 0)
		case n < 7:
			err = s.GuaranteedUpdate(ctx, key, out, false, nil, apistorage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
				fill(obj.(*corev1.ConfigMap))
				return obj, nil
			}), nil)
		default:
			err = s.Delete(ctx, key, out, nil, apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{})
		}
		switch {
		case err == nil:
			report.line("A %s", out.ResourceVersion)
		case !apistorage.IsExist(err) && !apistorage.IsNotFound(err):
			return fmt.Errorf("writing %s: %w", key, err)
		}
	}
}

// intact says whether a config map is one that writeAPI made, whole.
func intact(m *corev1.ConfigMap) bool {
	return m.Data["sum"] == fmt.Sprint(sum([]byte(m.Data["value"])))
}

func watchAPI(ctx context.Context, s apistorage.Interface, report *reporter, after uint64) error {
	w, err := s.Watch(ctx, "/configmaps", apistorage.ListOptions{
		ResourceVersion: fmt.Sprint(after), Predicate: apistorage.Everything, Recursive: true})
	if err != nil {
		return fmt.Errorf("watch from %d: %w", after, err)
	}
	for e := range w.ResultChan() {
		m, ok := e.Object.(*corev1.ConfigMap)
		if !ok || !intact(m) {
			return fmt.Errorf("the watch saw %s %T %v", e.Type, e.Object, e.Object)
		}
		kinds := map[watch.EventType]store.EventType{watch.Added: store.Created, watch.Modified: store.Updated, watch.Deleted: store.Deleted}
		group, number, _ := strings.Cut(m.Name, "-")
		report.line("W 0 %s %s %s%s/%s -", m.ResourceVersion, kinds[e.Type], prefix, group, number)
	}
	return errors.New("the watch ended")
}
