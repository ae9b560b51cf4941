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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/cri/critest"
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
	services := corelisters.NewServiceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))
	if list, err := services.List(labels.Everything()); err != nil || len(list) != 0 {
		t.Fatal(list, err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = source.Run(ctx) })
	before := runtime.NumGoroutine()
	var agents []*Agent
	root := t.TempDir()
	for i := range nodes {
		name := fmt.Sprintf("hollow-%d", i)
		a, err := New(Config{NodeName: name, RootDir: filepath.Join(root, name), Port: -1, NodeIP: "127.0.0.1", SkipVolumes: true,
			RelistPeriod: time.Hour, EventedRelistPeriod: time.Hour, StatusUpdate: time.Hour},
			Deps{Client: client, Pods: source, Services: services, CRI: conn, Events: events, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		agents = append(agents, a)
		wg.Go(func() {
			if err := a.Run(ctx); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	for _, a := range agents {
		select {
		case <-a.Ready():
		case <-time.After(time.Minute):
			t.Fatal("an agent did not become ready")
		}
	}
	w := &world{t: t, client: client, runtime: rt}
	for i := range nodes {
		w.create(newPod(fmt.Sprintf("p%d", i), func(p *corev1.Pod) { p.Spec.NodeName = fmt.Sprintf("hollow-%d", i) }))
	}
	for i := range nodes {
		w.eventually("running", func() bool { return w.phase(fmt.Sprintf("p%d", i)) == corev1.PodRunning })
	}
	// The runtime's side of each event stream counts too: it runs in this process.
	if per := (runtime.NumGoroutine() - before) / nodes; per > 30 {
		t.Errorf("%d goroutines an agent", per)
	} else {
		t.Logf("%d goroutines an agent, the runtime's included", per)
	}
	rt.Lock()
	if len(rt.Nodes) != nodes || len(rt.Sandboxes) != nodes {
		t.Errorf("%d nodes called, %d sandboxes", len(rt.Nodes), len(rt.Sandboxes))
	}
	rt.Unlock()
	cancel()
	wg.Wait()
	events.Shutdown()
}
