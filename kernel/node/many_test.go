package node

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/cri/critest"
	"pintle.dev/pintle/kernel/node/nodestatus"
	"pintle.dev/pintle/kernel/node/pleg"
	"pintle.dev/pintle/kernel/node/timetable"
)

// TestManyAgents: agents of one process share watches, events and the runtime's connection, and each runs its own pods.
func TestManyAgents(t *testing.T) {
	const nodes = 20
	client, rt := fake.NewClientset(), critest.New(t)
	rt.AddImage("img:1")
	conn, err := cri.Connect(rt.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(context.Background())
	events := record.NewBroadcaster(record.WithContext(ctx))
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	source := NewPodSource(client, "")
	nodesSource := nodestatus.NewSourceFrom(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) {
			return client.CoreV1().Nodes().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Nodes().Watch(ctx, o)
		},
	})
	services := corelisters.NewServiceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))
	if list, err := services.List(labels.Everything()); err != nil || len(list) != 0 {
		t.Fatal(list, err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = source.Run(ctx) })
	wg.Go(func() { nodesSource.Run(ctx) })
	stream := pleg.NewEvents(cri.New(conn, cri.AllNodes), slog.New(slog.DiscardHandler))
	table := timetable.New(4)
	wg.Go(func() { stream.Run(ctx) })
	wg.Go(func() { table.Run(ctx) })
	var running []*Running
	w := &world{t: t, client: client, runtime: rt}
	root, before := t.TempDir(), 0
	leases := func() int {
		list, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	quiet := func() bool { return leases() == 1 }
	for i := range nodes {
		name := fmt.Sprintf("hollow-%d", i)
		a, err := New(Config{NodeName: name, RootDir: filepath.Join(root, name), Port: -1, NodeIPs: []string{"127.0.0.1"}, SkipVolumes: true,
			RelistPeriod: time.Hour, EventedRelistPeriod: time.Hour, StatusUpdate: time.Hour},
			Deps{Client: client, Pods: source, Nodes: nodesSource, Services: services, CRI: conn, Events: events, RuntimeEvents: stream, Table: table, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			w.eventually("rest of the first", quiet)
			before = runtime.NumGoroutine()
		}
		r, err := a.Start(ctx)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		running = append(running, r)
		select {
		case <-a.Ready():
		default:
			t.Fatal("an agent is not ready after its start")
		}
	}
	// An agent at rest has no goroutine: it costs what it knows.
	w.eventually("rest", func() bool { return runtime.NumGoroutine() <= before+nodes/4 })
	for i := range nodes {
		w.create(newPod(fmt.Sprintf("p%d", i), func(p *corev1.Pod) { p.Spec.NodeName = fmt.Sprintf("hollow-%d", i) }))
	}
	for i := range nodes {
		w.eventually("running", func() bool { return w.phase(fmt.Sprintf("p%d", i)) == corev1.PodRunning })
	}
	w.eventually("rest with pods", func() bool { return runtime.NumGoroutine() <= before+nodes/4 })
	if n := leases(); n != nodes {
		t.Errorf("%d Leases", n)
	}
	rt.Lock()
	if len(rt.Nodes) != nodes || len(rt.Sandboxes) != nodes {
		t.Errorf("%d nodes called, %d sandboxes", len(rt.Nodes), len(rt.Sandboxes))
	}
	rt.Unlock()
	cancel()
	for _, r := range running {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	events.Shutdown()
}
