package garbagecollector

import (
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
)

// keepPreconditions has the fake refuse deletions of another object or state than the one
// that they name, as the API server does.
func keepPreconditions(client *metadatafake.FakeMetadataClient) {
	client.PrependReactor("delete", "configmaps", func(a k8stesting.Action) (bool, runtime.Object, error) {
		d := a.(k8stesting.DeleteActionImpl)
		found, err := client.Tracker().Get(configMaps, d.Namespace, d.Name)
		if err != nil {
			return true, nil, err
		}
		o, want := found.(*metav1.PartialObjectMetadata), d.DeleteOptions.Preconditions
		if *want.UID != o.UID || want.ResourceVersion != nil && *want.ResourceVersion != o.ResourceVersion {
			return true, nil, apierrors.NewConflict(configMaps.GroupResource(), d.Name, errors.New("precondition"))
		}
		return false, nil, nil
	})
}

// An object whose state in the graph says that it is to go is deleted without a read of it.
// If the API has another state, what that one says is done.
func TestDeleteAsSeen(t *testing.T) {
	at := func(version string, changes ...func(*metav1.PartialObjectMetadata)) func(*metav1.PartialObjectMetadata) {
		return func(o *metav1.PartialObjectMetadata) {
			o.ResourceVersion = version
			for _, change := range changes {
				change(o)
			}
		}
	}
	finalizer := func(f string) func(*metav1.PartialObjectMetadata) {
		return func(o *metav1.PartialObjectMetadata) { o.Finalizers = append(o.Finalizers, f) }
	}
	another := func(o *metav1.PartialObjectMetadata) { o.UID = "another" }
	waiting := object("a", deleting(metav1.FinalizerDeleteDependents))
	for name, tt := range map[string]struct {
		seen, there *metav1.PartialObjectMetadata // b in the graph and in the API; nil: gone
		others      []*metav1.PartialObjectMetadata
		reads       int // of b
		stays       bool
		policies    []metav1.DeletionPropagation // of the deletions that were tried
	}{
		"owner gone": {
			seen: object("b", at("1", ownedBy("x"))), there: object("b", at("1", ownedBy("x"))),
			policies: []metav1.DeletionPropagation{metav1.DeletePropagationBackground},
		},
		"owner waits for the last": {
			seen: object("b", at("1", ownedBy("a"))), there: object("b", at("1", ownedBy("a"))), others: []*metav1.PartialObjectMetadata{waiting},
			policies: []metav1.DeletionPropagation{metav1.DeletePropagationBackground},
		},
		"owner waits and there are dependents": {
			seen: object("b", at("1", ownedBy("a"))), there: object("b", at("1", ownedBy("a"))), reads: 1,
			others:   []*metav1.PartialObjectMetadata{waiting, object("c", at("1", ownedBy("b")))},
			policies: []metav1.DeletionPropagation{metav1.DeletePropagationForeground},
		},
		"its dependents are to be orphaned": {
			seen: object("b", at("1", ownedBy("x"), finalizer(metav1.FinalizerOrphanDependents))), there: object("b", at("1", ownedBy("x"), finalizer(metav1.FinalizerOrphanDependents))),
			policies: []metav1.DeletionPropagation{metav1.DeletePropagationOrphan},
		},
		"its dependents come first": {
			seen: object("b", at("1", ownedBy("x"), finalizer(metav1.FinalizerDeleteDependents))), there: object("b", at("1", ownedBy("x"), finalizer(metav1.FinalizerDeleteDependents))),
			policies: []metav1.DeletionPropagation{metav1.DeletePropagationForeground},
		},
		"its dependents are to be orphaned since": {
			seen: object("b", at("1", ownedBy("x"))), there: object("b", at("2", ownedBy("x"), finalizer(metav1.FinalizerOrphanDependents))), reads: 1,
			policies: []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan},
		},
		"changed since": {
			seen: object("b", at("1", ownedBy("x"))), there: object("b", at("2", ownedBy("x"))), reads: 1,
			policies: []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationBackground},
		},
		"adopted since": {
			seen: object("b", at("1", ownedBy("x"))), there: object("b", at("2", ownedBy("x", "y"))), others: []*metav1.PartialObjectMetadata{object("y", nil)}, reads: 1, stays: true,
			policies: []metav1.DeletionPropagation{metav1.DeletePropagationBackground},
		},
		"released since": {
			seen: object("b", at("1", ownedBy("x"))), there: object("b", at("2")), reads: 1, stays: true,
			policies: []metav1.DeletionPropagation{metav1.DeletePropagationBackground},
		},
		"another of its name": {
			seen: object("b", at("1", ownedBy("x"))), there: object("b", at("1", ownedBy("x"), another)), reads: 1, stays: true,
			policies: []metav1.DeletionPropagation{metav1.DeletePropagationBackground},
		},
		"gone since": {
			seen:     object("b", at("1", ownedBy("x"))),
			policies: []metav1.DeletionPropagation{metav1.DeletePropagationBackground},
		},
		"another owner stays": {
			seen: object("b", at("1", ownedBy("x", "y"))), there: object("b", at("1", ownedBy("x", "y"))), others: []*metav1.PartialObjectMetadata{object("y", nil)}, reads: 1, stays: true,
		},
		"of no version": {
			seen: object("b", ownedBy("x")), there: object("b", ownedBy("x")), reads: 1,
			policies: []metav1.DeletionPropagation{metav1.DeletePropagationBackground},
		},
	} {
		t.Run(name, func(t *testing.T) {
			there := slices.Clone(tt.others)
			if tt.there != nil {
				there = append(there, tt.there)
			}
			c, client := fixture(t, there...)
			keepPreconditions(client)
			c.see(append(slices.Clone(tt.others), tt.seen)...)
			if err := c.attemptToDelete(t.Context(), c.graph.node("b")); err != nil {
				t.Fatal(err)
			}
			reads := 0
			var policies []metav1.DeletionPropagation
			for _, a := range client.Actions() {
				switch a := a.(type) {
				case k8stesting.GetActionImpl:
					if a.Name == "b" {
						reads++
					}
				case k8stesting.DeleteActionImpl:
					policies = append(policies, *a.DeleteOptions.PropagationPolicy)
				}
			}
			if reads != tt.reads || !slices.Equal(policies, tt.policies) {
				t.Errorf("%d reads and deletions %v, want %d and %v", reads, policies, tt.reads, tt.policies)
			}
			_, err := client.Tracker().Get(configMaps, "default", "b")
			if stays := err == nil; stays != tt.stays {
				t.Errorf("the object is there: %t (%v)", stays, err)
			}
			if gone := tt.there == nil || tt.there.UID != "b"; gone && c.graph.node("b") != nil {
				t.Error("what the API does not have is in the graph")
			}
		})
	}
}

// That the resource of an object is not served is no sign that the object is gone.
func TestDeleteAsSeenUnserved(t *testing.T) {
	b := object("b", ownedBy("x"))
	b.ResourceVersion = "1"
	c, client := fixture(t, b)
	c.see(b)
	client.PrependReactor("delete", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewGenericServerResponse(404, "delete", configMaps.GroupResource(), "b", "404 page not found", 0, true)
	})
	if err := c.attemptToDelete(t.Context(), c.graph.node("b")); err == nil {
		t.Error("nothing is left to do")
	}
	if c.graph.node("b") == nil {
		t.Error("the object is forgotten")
	}
}

// The event of an owner in another namespace is for an object that has such a reference, once.
func TestMisplacedOwner(t *testing.T) {
	at := func(version string, change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		o := object("b", change)
		o.ResourceVersion = version
		return o
	}
	elsewhere := object("x", func(o *metav1.PartialObjectMetadata) { o.Namespace = "other" })
	for name, tt := range map[string]struct {
		there  *metav1.PartialObjectMetadata // b in the API; nil: gone
		events int
	}{
		"as seen":                      {at("1", ownedBy("x")), 1},
		"changed, and still refers":    {at("2", ownedBy("x")), 1},
		"with another owner by now":    {at("2", ownedBy("x", "z")), 1},
		"without the reference by now": {at("2", ownedBy("z")), 0},
		"released by now":              {at("2", nil), 0},
		"gone by now":                  {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			there := []*metav1.PartialObjectMetadata{elsewhere}
			if tt.there != nil {
				there = append(there, tt.there)
			}
			c, client := fixture(t, there...)
			keepPreconditions(client)
			c.see(elsewhere, at("1", ownedBy("x")))
			if err := c.attemptToDelete(t.Context(), c.graph.node("b")); err != nil {
				t.Fatal(err)
			}
			if got := len(c.recorder.(*record.FakeRecorder).Events); got != tt.events {
				t.Errorf("%d events, want %d", got, tt.events)
			}
		})
	}
}
