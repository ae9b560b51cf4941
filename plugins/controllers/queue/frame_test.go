package queue

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// A controller in a frame has its recorder and its caches when it works, its other
// workers run beside the queue, and all have ended when Run returns.
func TestFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "waited-for"}})
		shared := informers.NewSharedInformerFactory(client, 0)
		maps, secrets := shared.Core().V1().ConfigMaps(), shared.Core().V1().Secrets()
		type keeper struct {
			*Frame[string]
			beside bool
		}
		k := &keeper{}
		k.Frame = NewFrame(client, slog.New(slog.DiscardHandler), "keeper", func(_ context.Context, key string) error {
			if _, err := secrets.Lister().Secrets("ns").Get("waited-for"); err != nil {
				t.Error(err)
			}
			m, err := maps.Lister().ConfigMaps("ns").Get("a")
			if err == nil {
				k.Recorder.Event(m, corev1.EventTypeNormal, "Seen", key)
			}
			return err
		}, Options[string]{Name: "frame"})
		k.Watch(maps.Informer(), Every(func(m *corev1.ConfigMap) { k.Add(Key(m)) }))
		k.Watch(secrets.Informer(), nil)
		k.Beside(Func(func(ctx context.Context) {
			<-ctx.Done()
			k.beside = true
		}))
		ctx, cancel := context.WithCancel(t.Context())
		shared.Start(ctx.Done())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		events, err := client.CoreV1().Events("ns").List(ctx, metav1.ListOptions{})
		if err != nil || len(events.Items) != 1 || events.Items[0].Message != "ns/a" || events.Items[0].Source.Component != "keeper" {
			t.Errorf("events %+v, %v", events.Items, err)
		}
		cancel()
		if err := <-done; err != nil || !k.beside {
			t.Errorf("ended: %v; the other worker has ended: %t", err, k.beside)
		}
		k.Add("late") // the queue is shut down
		if n := k.Len(); n != 0 {
			t.Errorf("%d keys wait", n)
		}
		shared.Shutdown()
	})
}

// One that never runs gives its queues back.
func TestFrameCloses(t *testing.T) {
	synctest.Test(t, func(*testing.T) { // ends when no goroutine is left
		log := slog.New(slog.DiscardHandler)
		idle := func(context.Context, string) error { return nil }
		f := NewFrame(fake.NewClientset(), log, "keeper", idle, Options[string]{})
		f.Beside(New(log, idle, Options[string]{}), Func(func(context.Context) {}))
		f.Close()
	})
}
