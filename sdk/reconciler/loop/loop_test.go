package loop

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	discoveryfake "k8s.io/client-go/discovery/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/sdk/reconciler/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func object(kind, name string, owners ...metav1.OwnerReference) *metav1.PartialObjectMetadata {
	version := "v1"
	if kind == "Deployment" {
		version = "apps/v1"
	}
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, OwnerReferences: owners},
	}
}

// calls collects what was reconciled.
type calls struct {
	mu   sync.Mutex
	keys []string
}

func (c *calls) add(key protocol.Key) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys, key.String())
	n := 0
	for _, k := range c.keys {
		if k == key.String() {
			n++
		}
	}
	return n
}

func (c *calls) has(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.keys, key)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// run starts a loop over deployments that own config maps.
func run(t *testing.T, client *metadatafake.FakeMetadataClient, reconcile func(context.Context, protocol.Key) (Result, error), trouble func(error)) (wait func() error) {
	t.Helper()
	l, err := New(Config{
		Name: "c", For: protocol.Resource{Group: "apps", Version: "v1", Resource: "deployments"},
		Owns: []protocol.Resource{{Version: "v1", Resource: "configmaps"}},
		REST: &rest.Config{Host: "http://127.0.0.1:1"}, Reconcile: reconcile, Trouble: trouble,
	})
	if err != nil {
		t.Fatal(err)
	}
	l.metadata = client
	l.discovery = &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{{
		GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment"}},
	}}}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return func() error {
		select {
		case err := <-done:
			done <- err
			return err
		case <-time.After(2 * time.Minute):
			return errors.New("the loop did not end within two minutes")
		}
	}
}

func client(t *testing.T, objects ...*metav1.PartialObjectMetadata) *metadatafake.FakeMetadataClient {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := metadatafake.NewSimpleMetadataClient(scheme)
	for _, o := range objects {
		resource := protocol.Resource{Version: "v1", Resource: "configmaps"}
		if o.Kind == "Deployment" {
			resource = protocol.Resource{Group: "apps", Version: "v1", Resource: "deployments"}
		}
		if err := c.Tracker().Create(gvr(resource), o, o.Namespace); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestLoopReconcilesObjectsAndOwners(t *testing.T) {
	controller := true
	of := func(kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, Controller: &controller}
	}
	var seen calls
	run(t, client(t,
		object("Deployment", "one"), object("Deployment", "fails"), object("Deployment", "again"),
		object("ConfigMap", "owned", of("Deployment", "owner")), object("ConfigMap", "foreign", of("ReplicaSet", "set")), object("ConfigMap", "free"),
	), func(_ context.Context, key protocol.Key) (Result, error) {
		n := seen.add(key)
		switch {
		case key.Name == "fails" && n < 4:
			return Result{}, errors.New("not yet")
		case key.Name == "again" && n < 3:
			return Result{RequeueAfter: time.Millisecond}, nil
		}
		return Result{}, nil
	}, nil)
	for _, key := range []string{"d/one", "d/owner"} {
		eventually(t, key, func() bool { return seen.has(key) })
	}
	count := func(key string) func() bool {
		return func() bool {
			seen.mu.Lock()
			defer seen.mu.Unlock()
			n := 0
			for _, k := range seen.keys {
				if k == key {
					n++
				}
			}
			return n >= 3
		}
	}
	eventually(t, "an error asks again", count("d/fails"))
	eventually(t, "a result asks again", count("d/again"))
	if seen.has("d/set") || seen.has("d/free") || seen.has("d/foreign") || seen.has("d/owned") {
		t.Errorf("keys %q: want deployments only", seen.keys)
	}
}

func TestLoopEndsWithFatalError(t *testing.T) {
	wait := run(t, client(t, object("Deployment", "one")), func(context.Context, protocol.Key) (Result, error) {
		return Result{}, ErrFatal
	}, nil)
	if err := wait(); !errors.Is(err, ErrFatal) {
		t.Errorf("run: %v, want %v", err, ErrFatal)
	}
}

// TestLoopTellsThatTroubleIsOver: of a resource without objects, too, of which
// no event comes.
func TestLoopTellsThatTroubleIsOver(t *testing.T) {
	c := client(t)
	var mu sync.Mutex
	lists, told := 0, []error{}
	c.PrependReactor("list", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if lists++; lists == 1 {
			return true, nil, errors.New("not yet")
		}
		return false, nil, nil
	})
	run(t, c, func(context.Context, protocol.Key) (Result, error) { return Result{}, nil }, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err)
	})
	eventually(t, "trouble, and its end", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) >= 2 && told[0] != nil && told[len(told)-1] == nil
	})
}

// TestLoopWaitsWithAnError: what failed is not asked again before it wants to be.
func TestLoopWaitsWithAnError(t *testing.T) {
	var seen calls
	run(t, client(t, object("Deployment", "later"), object("Deployment", "soon")), func(_ context.Context, key protocol.Key) (Result, error) {
		seen.add(key)
		if key.Name == "later" {
			return Result{RequeueAfter: time.Hour}, errors.New("it broke")
		}
		return Result{}, errors.New("it failed")
	}, nil)
	count := func(key string) (n int) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		for _, k := range seen.keys {
			if k == key {
				n++
			}
		}
		return n
	}
	eventually(t, "the one with back-off alone", func() bool { return count("d/soon") >= 5 })
	if n := count("d/later"); n != 1 {
		t.Errorf("the other one was asked %d times", n)
	}
}
