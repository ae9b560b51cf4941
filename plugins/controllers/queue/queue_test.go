package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
)

// logged is a log that tests may read while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func quick() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Millisecond)
}

// What a sync returns decides whether it is called again and what is logged.
func TestOutcomes(t *testing.T) {
	defer goleak.VerifyNone(t)
	configMaps := schema.GroupResource{Resource: "configmaps"}
	conflict := apierrors.NewConflict(configMaps, "a", errors.New("changed"))
	terminating := apierrors.NewForbidden(configMaps, "a", errors.New("being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	missing := apierrors.NewNotFound(configMaps, "a")
	tests := []struct {
		name  string
		first error // of the first call; later ones succeed
		panic bool
		calls int
		log   string // level of what is logged, empty for nothing
	}{
		{name: "nil is the end", calls: 1},
		{name: "an error is retried", first: errors.New("no"), calls: 2, log: "WARN"},
		{name: "a panic too", panic: true, calls: 2, log: "WARN"},
		{name: "a conflict is ordinary", first: fmt.Errorf("update: %w", conflict), calls: 2, log: "DEBUG"},
		{name: "so is an object that went", first: missing, calls: 2, log: "DEBUG"},
		{name: "and one that is there", first: apierrors.NewAlreadyExists(configMaps, "a"), calls: 2, log: "DEBUG"},
		{name: "and several of them", first: fmt.Errorf("all: %w", utilerrors.NewAggregate([]error{conflict, missing})), calls: 2, log: "DEBUG"},
		{name: "but not if one is worse", first: utilerrors.NewAggregate([]error{conflict, errors.New("no")}), calls: 2, log: "WARN"},
		{name: "joined ones", first: errors.Join(conflict, Quiet(errors.New("no"))), calls: 2, log: "DEBUG"},
		{name: "joined with a worse one", first: errors.Join(Quiet(errors.New("no")), errors.New("no")), calls: 2, log: "WARN"},
		{name: "quiet", first: Quiet(errors.New("no")), calls: 2, log: "DEBUG"},
		{name: "nothing can be made there", first: fmt.Errorf("create: %w", terminating), calls: 1, log: "DEBUG"},
		{name: "after", first: fmt.Errorf("wait: %w", &After{Delay: time.Millisecond}), calls: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, calls := &logged{}, make(chan struct{}, 10)
			n := 0
			l := New(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})), func(context.Context, string) error {
				n++
				calls <- struct{}{}
				switch {
				case n > 1:
					return nil
				case tt.panic:
					panic("on purpose")
				}
				return tt.first
			}, Options[string]{Name: "things", Limiter: quick()})
			done := make(chan struct{})
			go func() { defer close(done); l.Run(ctx) }()
			l.Add("a")
			for range tt.calls {
				select {
				case <-calls:
				case <-time.After(2 * time.Minute):
					t.Fatalf("%d calls in time, want %d", n, tt.calls)
				}
			}
			cancel()
			<-done
			if n != tt.calls {
				t.Errorf("%d calls, want %d", n, tt.calls)
			}
			text := out.String()
			if tt.log == "" && text != "" || !strings.Contains(text, tt.log) || tt.log != "" && !strings.Contains(text, "queue=things") {
				t.Errorf("logged %q, want level %q", text, tt.log)
			}
		})
	}
	if Quiet(nil) != nil {
		t.Error("no error became one")
	}
}

// A key that keeps failing is given up after its retries.
func TestRetriesEnd(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	out, calls := &logged{}, make(chan struct{}, 10)
	l := New(slog.New(slog.NewTextHandler(out, nil)), func(context.Context, string) error {
		calls <- struct{}{}
		return errors.New("no")
	}, Options[string]{Retries: 2, Limiter: quick()})
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	l.Add("a")
	deadline := time.After(2 * time.Minute)
	for !strings.Contains(out.String(), "given up") {
		select {
		case <-deadline:
			t.Fatal("not given up in time")
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	<-done
	if len(calls) != 3 {
		t.Errorf("%d calls, want one and two retries", len(calls))
	}
}

// As many keys are worked on at once as there are workers, and no more.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(slog.New(slog.DiscardHandler), func(context.Context, int) error {
			time.Sleep(time.Second)
			return nil
		}, Options[int]{Workers: 7})
		l.SetWorkers(3)
		for i := range 20 {
			l.Add(i)
		}
		if n := l.Len(); n != 20 {
			t.Errorf("%d keys wait", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.Run(ctx) }()
		for second, want := range []int{17, 14, 11, 8, 5, 2, 0} {
			synctest.Wait()
			if n := l.Len(); n != want {
				t.Errorf("after %d s %d keys wait, want %d", second, n, want)
			}
			time.Sleep(time.Second)
		}
		cancel()
		<-done
	})
}

// Follow lets its workers start on filled caches, and leaves neither handlers
// nor goroutines behind.
func TestFollow(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "there"}})
	shared := informers.NewSharedInformerFactory(client, 0)
	maps, secrets := shared.Core().V1().ConfigMaps(), shared.Core().V1().Secrets()
	keys := make(chan string, 10)
	l := New(slog.New(slog.DiscardHandler), func(_ context.Context, key string) error { keys <- key; return nil }, Options[string]{Workers: 2})
	once := make(chan int, 1)
	watches := []Watch{
		{Informer: maps.Informer(), Handler: Every(func(o metav1.Object) { l.Add(Key(o)) })},
		{Informer: secrets.Informer()},
	}
	stop := make(chan struct{})
	shared.Start(stop)
	done := make(chan error, 1)
	go func() {
		done <- Follow(ctx, watches, l, Func(func(context.Context) { once <- len(maps.Informer().GetStore().List()) }))
	}()
	next := func() string {
		select {
		case key := <-keys:
			return key
		case <-time.After(2 * time.Minute):
			t.Fatal("no key in time")
			return ""
		}
	}
	if key := next(); key != "ns/there" {
		t.Errorf("key %s", key)
	}
	if n := <-once; n != 1 {
		t.Errorf("a worker began with %d objects cached", n)
	}
	// A watch of the fake does not deliver what was deleted between the list and the watch.
	watched := func(context.Context) (bool, error) {
		return slices.ContainsFunc(client.Actions(), func(a k8stesting.Action) bool { return a.Matches("watch", "configmaps") }), nil
	}
	if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, 2*time.Minute, true, watched); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().ConfigMaps("ns").Delete(ctx, "there", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if key := next(); key != "ns/there" {
		t.Errorf("key of the deleted %s", key)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(stop)
	shared.Shutdown()

	// One whose context ends before the caches are filled does no work.
	empty := informers.NewSharedInformerFactory(client, 0).Core().V1().Secrets().Informer()
	if err := Follow(ctx, []Watch{{Informer: empty}}, Func(func(context.Context) { t.Error("worked without caches") })); err != nil {
		t.Error(err)
	}
}
