package namespace

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"pintle.dev/pintle/plugins/controllers/queue"
)

const (
	// finalizerWait is how long objects with finalizers are thought to take.
	finalizerWait = 15 * time.Second
	// parallel is how many kinds are emptied at once.
	parallel = 8
)

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

// kind is one resource to empty.
type kind struct {
	resource   schema.GroupVersionResource
	collection bool // its collection can be deleted
	list       bool
}

// empty deletes all content and returns how long what is left may take, zero
// when nothing is left, and what there is to report.
func (n *namespaces) empty(ctx context.Context, ns *corev1.Namespace) (time.Duration, *report) {
	r := newReport()
	kinds := n.kinds(r)
	var left time.Duration
	// Pods may need what they use until their last breath, so they go first.
	for _, k := range kinds {
		if k.resource == podResource {
			left = n.emptyKind(ctx, k, ns, r)
			if r.total(podResource) > 0 || r.failed() {
				return left, r
			}
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, parallel)
	for _, k := range kinds {
		if k.resource == podResource {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			wait := n.emptyKind(ctx, k, ns, r)
			mu.Lock()
			left = max(left, wait)
			mu.Unlock()
			<-slots
		})
	}
	wg.Wait()
	return left, r
}

// kinds are the namespaced resources that can be deleted, as far as they can
// be found out.
func (n *namespaces) kinds(r *report) []kind {
	lists, err := n.discover()
	if err != nil {
		r.discovery(err)
	}
	var kinds []kind
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			r.parsing(err)
			continue
		}
		for i := range list.APIResources {
			res := &list.APIResources[i]
			kinds = append(kinds, kind{
				resource:   gv.WithResource(res.Name),
				collection: slices.Contains(res.Verbs, "deletecollection"),
				list:       slices.Contains(res.Verbs, "list"),
			})
		}
	}
	return kinds
}

// emptyKind deletes the objects of one kind and says how long what is left may
// take.
func (n *namespaces) emptyKind(ctx context.Context, k kind, ns *corev1.Namespace, r *report) time.Duration {
	if !k.list {
		// What cannot be listed can only be deleted blindly.
		if k.collection {
			if err := n.deleteAll(ctx, k, ns.Name, nil); err != nil {
				r.content(err)
			}
		}
		return 0
	}
	client := n.objects.Resource(k.resource).Namespace(ns.Name)
	items, err := listAll(ctx, client)
	if err != nil || len(items) == 0 {
		r.content(err)
		return 0
	}
	var grace time.Duration
	if k.resource == podResource {
		grace = n.grace(ns)
	}
	// Pods that were told to go are left alone while they have their time.
	if grace == 0 || !allDeleted(items) {
		if err := n.deleteAll(ctx, k, ns.Name, items); err != nil {
			r.content(err)
			return grace
		}
		if items, err = listAll(ctx, client); err != nil || len(items) == 0 {
			r.content(err)
			return 0
		}
	}
	finalized := r.remain(k.resource, items)
	switch {
	case grace > 0:
		return grace
	case finalized:
		return finalizerWait
	}
	// It stands in the conditions, and the last pods are often just going.
	r.content(queue.Quiet(fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", ns.Name, k.resource)))
	return 0
}

func allDeleted(items []metav1.PartialObjectMetadata) bool {
	return !slices.ContainsFunc(items, func(o metav1.PartialObjectMetadata) bool { return o.DeletionTimestamp == nil })
}

func (n *namespaces) deleteAll(ctx context.Context, k kind, namespace string, items []metav1.PartialObjectMetadata) error {
	client := n.objects.Resource(k.resource).Namespace(namespace)
	// Owners and dependents all go, so no object waits for another.
	background := metav1.DeletePropagationBackground
	opts := metav1.DeleteOptions{PropagationPolicy: &background}
	if k.collection {
		err := client.DeleteCollection(ctx, opts, metav1.ListOptions{})
		if !unsupported(err) {
			return err
		}
	}
	for i := range items {
		if err := client.Delete(ctx, items[i].Name, opts); err != nil && !unsupported(err) {
			return err
		}
	}
	return nil
}

// listAll lists a kind; one that cannot be listed has nothing.
func listAll(ctx context.Context, client metadata.ResourceInterface) ([]metav1.PartialObjectMetadata, error) {
	list, err := client.List(ctx, metav1.ListOptions{})
	switch {
	case unsupported(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return list.Items, nil
}

func unsupported(err error) bool {
	return apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err)
}

// grace is the longest grace period of the namespace's running pods, or zero
// once the namespace is deleted for longer than that.
func (n *namespaces) grace(ns *corev1.Namespace) time.Duration {
	pods, err := n.pods.Pods(ns.Name).List(labels.Everything())
	if err != nil {
		return 0
	}
	var longest time.Duration
	for _, p := range pods {
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && p.Spec.TerminationGracePeriodSeconds != nil {
			longest = max(longest, time.Duration(*p.Spec.TerminationGracePeriodSeconds)*time.Second)
		}
	}
	if time.Since(ns.DeletionTimestamp.Time) >= longest {
		return 0
	}
	return longest
}
