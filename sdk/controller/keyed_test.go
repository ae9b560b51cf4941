package controller

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// TestKeyed: a key is tried again until it works, also after a panic, and a
// deletion is told.
func TestKeyed(t *testing.T) {
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	factory := informers.NewSharedInformerFactory(client, 0)
	calls := make(chan string, 16)
	tries := 0
	c := Keyed("greeter", func(c *Context) cache.SharedIndexInformer { return c.Informers.Core().V1().Namespaces().Informer() },
		func(_ context.Context, _ *Context, key cache.ObjectName) error {
			tries++
			switch tries {
			case 1:
				return errors.New("not now")
			case 2:
				panic("worse")
			}
			calls <- key.Name
			return nil
		})
	runner, err := c.New(&Context{Name: c.Name, Informers: factory, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop := make(chan struct{})
	factory.Start(stop)
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	wait := func(what string) {
		t.Helper()
		select {
		case name := <-calls:
			if name != "a" {
				t.Errorf("%s: called with %s", what, name)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: not called", what)
		}
	}
	wait("added")
	if tries != 3 {
		t.Errorf("it worked at try %d, want 3", tries)
	}
	if err := client.CoreV1().Namespaces().Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait("deleted")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(stop)
	factory.Shutdown()
}
