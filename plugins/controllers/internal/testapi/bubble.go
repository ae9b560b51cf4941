package testapi

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/sdk/controller"
)

// Began is when a bubble of synctest begins.
var Began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Bubble is a controller that marks and deletes pods and runs in a bubble of synctest.
type Bubble struct {
	*testing.T
	Client *fake.Clientset

	mu     sync.Mutex
	marked []string
	refuse int
}

// Start runs the controller that build makes until the test ends, on an API that has
// objects. It returns when the caches are filled.
func Start(t *testing.T, build func(*controller.Context) (controller.Runner, error), objects ...runtime.Object) *Bubble {
	t.Helper()
	b := &Bubble{T: t, Client: fake.NewClientset(objects...)}
	b.Client.PrependReactor("*", "pods", b.write)
	shared := informers.NewSharedInformerFactory(b.Client, 0)
	runner, err := build(&controller.Context{Logger: slog.New(slog.DiscardHandler), Client: b.Client, Informers: shared})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	shared.Start(ctx.Done())
	go func() { done <- runner.Run(ctx) }()
	b.After(500 * time.Millisecond) // the caches are filled after a tenth of a second
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		shared.Shutdown()
	})
	return b
}

// write looks at what the controller writes of pods: the fake API does not look at
// preconditions.
func (b *Bubble) write(a k8stesting.Action) (bool, runtime.Object, error) {
	if verb := a.GetVerb(); verb != "patch" && verb != "delete" {
		return false, nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse > 0 {
		b.refuse--
		return true, nil, apierrors.NewInternalError(errors.New("refused"))
	}
	if p, ok := a.(k8stesting.PatchAction); ok {
		b.marked = append(b.marked, string(p.GetPatch()))
		return false, nil, nil
	}
	d := a.(k8stesting.DeleteActionImpl)
	obj, err := b.Client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), d.Namespace, d.Name)
	if err != nil {
		return true, nil, err
	}
	if uid := d.DeleteOptions.Preconditions.UID; uid == nil || *uid != obj.(*corev1.Pod).UID {
		return true, nil, apierrors.NewConflict(corev1.Resource("pods"), d.Name, errors.New("the UID is another"))
	}
	return false, nil, nil
}

// Refuse has the next n writes of pods fail.
func (b *Bubble) Refuse(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = n
}

// Refusing is how many writes are still to fail.
func (b *Bubble) Refusing() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refuse
}

// Marked are the patches of pods so far.
func (b *Bubble) Marked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.marked)
}

// After lets time pass.
func (b *Bubble) After(d time.Duration) *Bubble {
	time.Sleep(d)
	synctest.Wait()
	return b
}

// Want compares the pods that are there.
func (b *Bubble) Want(names ...string) {
	b.Helper()
	synctest.Wait()
	list, err := b.Client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var there []string
	for _, p := range list.Items {
		there = append(there, p.Name)
	}
	slices.Sort(there)
	if !slices.Equal(there, names) {
		b.Errorf("after %s: pods %v, want %v", time.Since(Began), there, names)
	}
}

// Evictions are the events that were written, in order. Each has the reason and the
// source.
func (b *Bubble) Evictions(reason, source string) (all []*corev1.Event) {
	b.Helper()
	synctest.Wait()
	for _, a := range b.Client.Actions() {
		if c, ok := a.(k8stesting.CreateAction); ok && a.Matches("create", "events") {
			e := c.GetObject().(*corev1.Event)
			if e.Reason != reason || e.Type != corev1.EventTypeNormal || e.Source.Component != source {
				b.Errorf("event %+v", e)
			}
			all = append(all, e)
		}
	}
	return all
}
