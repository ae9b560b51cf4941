package garbagecollector

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	k8stesting "k8s.io/client-go/testing"
)

// deleteAsTheAPI has the fake delete as the API server does: what is deleted in the
// foreground, or is held by a finalizer, is marked and goes with its last finalizer.
func deleteAsTheAPI(client *metadatafake.FakeMetadataClient) {
	tracker := client.Tracker()
	client.PrependReactor("delete", "configmaps", func(a k8stesting.Action) (bool, runtime.Object, error) {
		d := a.(k8stesting.DeleteActionImpl)
		found, err := tracker.Get(configMaps, d.Namespace, d.Name)
		if err != nil {
			return true, nil, err
		}
		o := found.(*metav1.PartialObjectMetadata).DeepCopy()
		policy := d.DeleteOptions.PropagationPolicy
		if policy != nil && *policy == metav1.DeletePropagationForeground && !slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents) {
			o.Finalizers = append(o.Finalizers, metav1.FinalizerDeleteDependents)
		}
		if len(o.Finalizers) == 0 {
			return true, nil, tracker.Delete(configMaps, d.Namespace, d.Name)
		}
		if o.DeletionTimestamp == nil {
			now := metav1.Now()
			o.DeletionTimestamp = &now
		}
		return true, nil, tracker.Update(configMaps, o, d.Namespace)
	})
	client.PrependReactor("patch", "configmaps", func(a k8stesting.Action) (bool, runtime.Object, error) {
		_, patched, err := k8stesting.ObjectReaction(tracker)(a)
		if err != nil {
			return true, nil, err
		}
		if o := patched.(*metav1.PartialObjectMetadata); o.DeletionTimestamp != nil && len(o.Finalizers) == 0 {
			err = tracker.Delete(configMaps, o.Namespace, o.Name)
		}
		return true, patched, err
	})
}

// Objects that own each other in a ring, or themselves, cost no calls while they rest.
// When one of them is deleted all go, in the background as in the foreground, and each by
// a bounded number of calls.
func TestRings(t *testing.T) {
	for _, size := range []int{1, 2, 3, 20} {
		for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
			t.Run(fmt.Sprintf("%d %s", size, policy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { ringGoes(t, size, policy) })
			})
		}
	}
}

func ringGoes(t *testing.T, size int, policy metav1.DeletionPropagation) {
	name := func(i int) string { return fmt.Sprintf("ring-%02d", i%size) }
	var ring []*metav1.PartialObjectMetadata
	for i := range size {
		ring = append(ring, object(name(i), ownedBy(name(i+size-1))))
	}
	c, client := fixture(t, ring...)
	deleteAsTheAPI(client)
	c.found.Store(nil) // Run is to find out itself
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	calls := func(after time.Duration) (n, deletions int) {
		time.Sleep(after) // of the bubble
		synctest.Wait()
		for _, a := range client.Actions() {
			switch a.GetVerb() {
			case "list", "watch":
				continue
			case "delete":
				deletions++
			}
			n++
		}
		return n, deletions
	}
	if n, _ := calls(24 * time.Hour); n != 0 {
		t.Errorf("%d calls about a ring at rest", n)
	}
	objects := client.Resource(configMaps).Namespace("default")
	if err := objects.Delete(ctx, name(0), metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		t.Fatal(err)
	}
	n, deletions := calls(time.Hour)
	if deletions < size || deletions > 2*size || n > 20*size {
		t.Errorf("%d calls, of which %d deletions, for a ring of %d", n, deletions, size)
	}
	left, err := objects.List(ctx, metav1.ListOptions{})
	if err != nil || len(left.Items) != 0 {
		t.Errorf("left of the ring: %+v, %v", left.Items, err)
	}
	if later, _ := calls(24 * time.Hour); later != n {
		t.Errorf("%d calls after all are gone", later-n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(c.graph.nodes) != 0 || len(c.graph.dependents) != 0 {
		t.Errorf("left in the graph: %v %v", c.graph.nodes, c.graph.dependents)
	}
}
