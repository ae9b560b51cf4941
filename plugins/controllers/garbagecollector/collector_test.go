package garbagecollector

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

func object(name string, change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
	}
	if change != nil {
		change(o)
	}
	return o
}

func ownedBy(owners ...string) func(*metav1.PartialObjectMetadata) {
	return func(o *metav1.PartialObjectMetadata) {
		for _, owner := range owners {
			yes := true
			o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: types.UID(owner), BlockOwnerDeletion: &yes})
		}
	}
}

func deleting(finalizer string, also ...func(*metav1.PartialObjectMetadata)) func(*metav1.PartialObjectMetadata) {
	return func(o *metav1.PartialObjectMetadata) {
		now := metav1.NewTime(time.Unix(1_000, 0))
		o.DeletionTimestamp, o.Finalizers = &now, []string{finalizer}
		for _, change := range also {
			change(o)
		}
	}
}

func discovered() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	verbs := metav1.Verbs{"get", "list", "watch", "delete", "patch"}
	version := metav1.GroupVersionForDiscovery{GroupVersion: "v1", Version: "v1"}
	return []*metav1.APIGroup{{Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}},
		[]*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: verbs},
			{Name: "nodes", Kind: "Node", Verbs: verbs},
			{Name: "events", Kind: "Event", Namespaced: true, Verbs: verbs},
			{Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"}},
			{Name: "configmaps/status", Kind: "ConfigMap", Namespaced: true, Verbs: verbs},
		}}}, nil
}

func fixture(t *testing.T, objects ...*metav1.PartialObjectMetadata) (*collector, *metadatafake.FakeMetadataClient) {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var list []runtime.Object
	for _, o := range objects {
		list = append(list, o)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, list...)
	c := build(fake.NewClientset(), client, discovered, slog.New(slog.DiscardHandler))
	c.recorder = record.NewFakeRecorder(100)
	found, err := discover(c.list)
	if err != nil {
		t.Fatal(err)
	}
	c.found.Store(found)
	t.Cleanup(func() { c.deletes.Close(); c.orphans.Close() })
	return c, client
}

// see puts objects into the graph as a monitor does.
func (c *collector) see(objects ...*metav1.PartialObjectMetadata) {
	for _, o := range objects {
		m := &monitor{graph: c.graph, resource: configMaps, kind: "ConfigMap"}
		if o.Kind == "Node" {
			m.resource, m.kind = nodes, "Node"
		}
		c.graph.put(m.node(o))
	}
}

func TestDiscovery(t *testing.T) {
	found, err := discover(discovered)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.watched) != 2 || found.watched[configMaps] != "ConfigMap" || found.watched[nodes] != "Node" {
		t.Errorf("watched %v", found.watched)
	}
	if k, err := found.owner(metav1.OwnerReference{APIVersion: "v1", Kind: "Node"}); err != nil || k.namespaced {
		t.Errorf("node: %+v %v", k, err)
	}
	if _, err := found.owner(metav1.OwnerReference{APIVersion: "x/v1", Kind: "Node"}); err == nil {
		t.Error("a kind that is not served was found")
	}
}

// What one look at an object does, by its owners: the background, foreground
// and orphan policies and the repair of references.
func TestAttemptToDelete(t *testing.T) {
	cluster := func(o *metav1.PartialObjectMetadata) { o.Namespace = ""; o.Kind = "Node" }
	tests := []struct {
		name    string
		objects []*metav1.PartialObjectMetadata // all are in the API and in the graph
		look    string
		verb    string // of the write, empty for none
		policy  metav1.DeletionPropagation
	}{
		{name: "owner there", objects: []*metav1.PartialObjectMetadata{object("a", nil), object("b", ownedBy("a"))}, look: "b"},
		{name: "owner gone", objects: []*metav1.PartialObjectMetadata{object("b", ownedBy("a"))}, look: "b", verb: "delete", policy: metav1.DeletePropagationBackground},
		{name: "one of two gone", objects: []*metav1.PartialObjectMetadata{object("a", nil), object("b", ownedBy("a", "x"))}, look: "b", verb: "patch"},
		{name: "no owners", objects: []*metav1.PartialObjectMetadata{object("b", nil)}, look: "b"},
		{
			name: "orphan finalizer is kept to", verb: "delete", policy: metav1.DeletePropagationOrphan, look: "b",
			objects: []*metav1.PartialObjectMetadata{object("b", func(o *metav1.PartialObjectMetadata) {
				ownedBy("x")(o)
				o.Finalizers = []string{metav1.FinalizerOrphanDependents}
			})},
		},
		{
			name: "owner waits and there are dependents", verb: "delete", policy: metav1.DeletePropagationForeground, look: "b",
			objects: []*metav1.PartialObjectMetadata{
				object("a", deleting(metav1.FinalizerDeleteDependents)), object("b", ownedBy("a")), object("c", ownedBy("b")),
			},
		},
		{
			name: "owner waits for the last", verb: "delete", policy: metav1.DeletePropagationBackground, look: "b",
			objects: []*metav1.PartialObjectMetadata{object("a", deleting(metav1.FinalizerDeleteDependents)), object("b", ownedBy("a"))},
		},
		{
			name: "nothing blocks the owner", verb: "patch", look: "a",
			objects: []*metav1.PartialObjectMetadata{object("a", deleting(metav1.FinalizerDeleteDependents))},
		},
		{
			name: "a dependent blocks the owner", look: "a",
			objects: []*metav1.PartialObjectMetadata{object("a", deleting(metav1.FinalizerDeleteDependents)), object("b", ownedBy("a"))},
		},
		{
			name: "a cluster-scoped object of a namespaced owner stays", look: "n",
			objects: []*metav1.PartialObjectMetadata{object("n", func(o *metav1.PartialObjectMetadata) { ownedBy("a")(o); cluster(o) })},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, client := fixture(t, tt.objects...)
			c.see(tt.objects...)
			if err := c.attemptToDelete(t.Context(), c.graph.node(types.UID(tt.look))); err != nil {
				t.Fatal(err)
			}
			var verb string
			var policy metav1.DeletionPropagation
			for _, a := range client.Actions() {
				switch a := a.(type) {
				case k8stesting.DeleteActionImpl:
					verb, policy = "delete", *a.DeleteOptions.PropagationPolicy
					if *a.DeleteOptions.Preconditions.UID != types.UID(tt.look) {
						t.Error("deleted without its UID")
					}
				case k8stesting.PatchActionImpl:
					verb = "patch"
				}
			}
			if verb != tt.verb || policy != tt.policy {
				t.Errorf("%s %s, want %s %s", verb, policy, tt.verb, tt.policy)
			}
		})
	}
}

// An object that changes between the look and the deletion goes all the same,
// unless its owners changed.
func TestDeleteWhileItChanges(t *testing.T) {
	for name, adopted := range map[string]bool{"otherwise": false, "its owners": true} {
		t.Run(name, func(t *testing.T) {
			b := object("b", ownedBy("gone"))
			c, client := fixture(t, b)
			c.see(b)
			deletes := 0
			client.PrependReactor("delete", "configmaps", func(a k8stesting.Action) (bool, runtime.Object, error) {
				if deletes++; a.(k8stesting.DeleteActionImpl).DeleteOptions.Preconditions.ResourceVersion == nil {
					return false, nil, nil
				}
				changed := object("b", ownedBy("gone"))
				if adopted {
					ownedBy("another")(changed)
				}
				return true, nil, errors.Join(client.Tracker().Update(configMaps, changed, "default"),
					apierrors.NewConflict(configMaps.GroupResource(), "b", errors.New("changed")))
			})
			err := c.attemptToDelete(t.Context(), c.graph.node("b"))
			_, there := client.Resource(configMaps).Namespace("default").Get(t.Context(), "b", metav1.GetOptions{})
			if adopted && (!apierrors.IsConflict(err) || there != nil || deletes != 1) {
				t.Errorf("adopted meanwhile: %v, %v, %d deletions", err, there, deletes)
			}
			if !adopted && (err != nil || !apierrors.IsNotFound(there)) {
				t.Errorf("error %v, object: %v", err, there)
			}
		})
	}
}

// A resource that is not served any more says nothing about its objects: neither is
// what they own deleted, nor are they forgotten, which would come to the same.
func TestUnservedIsNotGone(t *testing.T) {
	unserved := apierrors.NewGenericServerResponse(404, "get", configMaps.GroupResource(), "owner", "404 page not found", 0, true)
	for name, what := range map[string]string{"the owner": "owner", "the object": "b"} {
		t.Run(name, func(t *testing.T) {
			b := object("b", ownedBy("owner"))
			c, client := fixture(t, b)
			c.see(b)
			client.PrependReactor("get", "configmaps", func(a k8stesting.Action) (bool, runtime.Object, error) {
				return a.(k8stesting.GetAction).GetName() == what, nil, unserved
			})
			client.PrependReactor("delete", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
				t.Error("the object is deleted")
				return false, nil, nil
			})
			if err := c.attemptToDelete(t.Context(), c.graph.node("b")); err == nil {
				t.Error("nothing is left to do")
			}
			if c.graph.node("b") == nil {
				t.Error("the object is forgotten")
			}
		})
	}
	if !apierrors.IsNotFound(unserved) {
		t.Error("this is what clients make of a path that is not served, and it is NotFound")
	}
}

// The deletion of an owner brings its dependents up, and that of a dependent
// the owner that waits.
func TestGraphQueues(t *testing.T) {
	c, _ := fixture(t)
	deletes, orphans := map[string]bool{}, 0
	c.graph.toDelete = func(uid types.UID) { deletes[string(uid)] = true }
	c.graph.toOrphan = func(types.UID) { orphans++ }
	drain := func() []string {
		defer clear(deletes)
		return slices.Sorted(maps.Keys(deletes))
	}
	c.see(object("a", nil), object("b", ownedBy("a")), object("c", ownedBy("b")))
	if got := drain(); len(got) != 0 {
		t.Errorf("known owners: %v", got)
	}
	c.see(object("lost", ownedBy("x")))
	if got := drain(); !slices.Equal(got, []string{"lost"}) {
		t.Errorf("unknown owner: %v", got)
	}
	c.see(object("b", deleting(metav1.FinalizerDeleteDependents, ownedBy("a"))))
	if got := drain(); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("foreground: %v", got)
	}
	c.graph.drop("c", true)
	if got := drain(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("last dependent: %v", got)
	}
	c.graph.drop("a", true)
	if got := drain(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("owner: %v", got)
	}
	c.see(object("o", deleting(metav1.FinalizerOrphanDependents)))
	if orphans != 1 {
		t.Error("orphan: not queued")
	}
	for _, uid := range []types.UID{"b", "lost", "o"} {
		c.graph.drop(uid, true)
	}
	if len(c.graph.nodes) != 0 || len(c.graph.dependents) != 0 {
		t.Errorf("left in the graph: %v %v", c.graph.nodes, c.graph.dependents)
	}
}

// Watching from the start to the end: a dependent of an owner that is deleted
// goes, and Run leaves no goroutine.
func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	c, client := fixture(t, object("a", nil), object("b", ownedBy("a")))
	c.found.Store(nil) // Run is to find out itself
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	wait := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	wait("not watched in time", func() bool { return c.graph.node("b") != nil && c.graph.node("a") != nil })
	// A watch of the fake does not deliver what was deleted between the list and the watch.
	wait("no watch in time", func() bool {
		return slices.ContainsFunc(client.Actions(), func(a k8stesting.Action) bool { return a.Matches("watch", configMaps.Resource) })
	})
	if err := client.Resource(configMaps).Namespace("default").Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait("dependent was not deleted in time", func() bool {
		list, err := client.Resource(configMaps).Namespace("default").List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
