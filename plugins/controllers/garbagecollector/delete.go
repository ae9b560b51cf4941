package garbagecollector

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// errNamespacedOwner is final: no later look can make it right.
var errNamespacedOwner = errors.New("cluster-scoped objects cannot refer to namespaced owners")

// references are an object's owner references by what became of the owners.
type references struct {
	solid    []metav1.OwnerReference
	dangling []types.UID
	waiting  []types.UID // deleted in the foreground, wait for dependents
	unseen   bool        // a solid owner is not in the graph yet
	// misplaced name owners in a namespace where they cannot be. Their event is for an
	// object that is known to have them.
	misplaced []metav1.OwnerReference
}

// attemptToDelete looks at one object: it is deleted if no owner is left, it
// loses references to owners that are gone if others are left, and an object
// that waits for its dependents goes on.
func (c *collector) attemptToDelete(ctx context.Context, n *node) error {
	if n.beingDeleted && !n.deletingDependents {
		return nil
	}
	if !n.deletingDependents && c.graph.settled(n) {
		return nil
	}
	if n.deletingDependents {
		latest, err := c.live(ctx, n)
		if err != nil || latest == nil {
			return err
		}
		return c.deletingDependents(ctx, n)
	}
	refs, err := c.classify(ctx, n, n.owners)
	if err == nil {
		done, err := c.deleteAsSeen(ctx, n, refs)
		if err != nil || done {
			return err
		}
	}
	latest, liveErr := c.live(ctx, n)
	if liveErr != nil || latest == nil || len(latest.OwnerReferences) == 0 {
		return liveErr
	}
	if !equality.Semantic.DeepEqual(latest.OwnerReferences, n.owners) {
		before := refs.misplaced
		refs, err = c.classify(ctx, n, latest.OwnerReferences)
		// Owners that were found absent are not asked for again.
		for _, ref := range before {
			if find(latest.OwnerReferences, ref.UID) != nil && find(refs.misplaced, ref.UID) == nil {
				refs.misplaced = append(refs.misplaced, ref)
			}
		}
	}
	c.tellMisplaced(n, refs)
	if errors.Is(err, errNamespacedOwner) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(refs.solid) > 0 {
		return c.keep(ctx, n, refs)
	}
	return c.deleteLatest(ctx, n, latest, refs)
}

// live reads the object. It is nil if it is gone, and then so in the graph too.
func (c *collector) live(ctx context.Context, n *node) (*metav1.PartialObjectMetadata, error) {
	latest, err := c.get(ctx, n)
	if isGone(err) || err == nil && latest.UID != n.uid {
		// Deleted without an event so far; its monitor may be behind.
		c.graph.drop(n.uid, true)
		return nil, nil
	}
	return latest, err
}

// keep takes the references off an object that has other owners.
func (c *collector) keep(ctx context.Context, n *node, refs *references) error {
	if lost := append(refs.dangling, refs.waiting...); len(lost) > 0 {
		if err := ignoreGone(c.removeOwners(ctx, n, lost)); err != nil {
			return err
		}
	}
	if refs.unseen {
		return errUnseen
	}
	return nil
}

// deleteAsSeen deletes the object without a read of it, if the state in the graph is
// enough to say how. The resource version holds the API to that state: if the object has
// another by now, nothing is done, and the object has to be read.
func (c *collector) deleteAsSeen(ctx context.Context, n *node, refs *references) (done bool, err error) {
	if n.version == "" || len(refs.solid) > 0 || len(refs.waiting) > 0 && len(c.graph.children(n.uid)) > 0 {
		return false, nil
	}
	err = c.at(n).Delete(ctx, n.name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &n.uid, ResourceVersion: &n.version}, PropagationPolicy: &n.policy,
	})
	switch {
	case isGone(err):
		c.graph.drop(n.uid, true)
		return true, nil
	case apierrors.IsConflict(err):
		return false, nil
	}
	if err == nil {
		c.tellMisplaced(n, refs)
	}
	return err == nil, err
}

// deleteLatest deletes an object that has no owner left, as it was read.
func (c *collector) deleteLatest(ctx context.Context, n *node, latest *metav1.PartialObjectMetadata, refs *references) error {
	policy := policyOf(latest.Finalizers)
	if children := c.graph.children(n.uid); len(refs.waiting) > 0 && len(children) > 0 {
		// An owner waits for this one, so this one waits for its own.
		policy = metav1.DeletePropagationForeground
		if slices.ContainsFunc(children, func(child *node) bool { return child.deletingDependents }) {
			// There may be a ring of owners that wait for each other; the
			// references of this one no longer block, and the ring opens.
			err := c.unblockOwners(ctx, n, latest)
			if err == nil {
				latest, err = c.get(ctx, n)
			}
			if err != nil {
				return ignoreGone(err)
			}
		}
	}
	err := c.delete(ctx, n, latest, policy)
	if isGone(err) {
		c.graph.drop(n.uid, true)
		return nil
	}
	return err
}

// isGone tells that an object is not there. That its resource is not served is also
// NotFound, and says nothing about the object: another API server of the cluster, which
// knows the resource, may have stopped, and its objects are still in storage.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func ignoreGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

// deletingDependents lets an object go when nothing blocks it any more, and
// else looks at what blocks it. One that names itself as its owner does not wait
// for itself: it would never go.
func (c *collector) deletingDependents(ctx context.Context, n *node) error {
	blocked := false
	for _, child := range c.graph.children(n.uid) {
		if ref := find(child.owners, n.uid); child.uid != n.uid && ref != nil && blocks(*ref) {
			blocked = true
			if !child.deletingDependents {
				c.graph.toDelete(child.uid)
			}
		}
	}
	if blocked {
		return nil
	}
	return c.removeFinalizer(ctx, n, metav1.FinalizerDeleteDependents)
}

// attemptToOrphan takes the references off all dependents and then lets the
// owner go.
func (c *collector) attemptToOrphan(ctx context.Context, n *node) error {
	children := c.graph.children(n.uid)
	faults := make([]error, len(children))
	workqueue.ParallelizeUntil(ctx, workers, len(children), func(i int) {
		faults[i] = ignoreGone(c.removeOwners(ctx, children[i], []types.UID{n.uid}))
	})
	// Those that were not begun when ctx ended have no fault, but keep the owner.
	if err := errors.Join(append(faults, ctx.Err())...); err != nil {
		return err
	}
	return c.removeFinalizer(ctx, n, metav1.FinalizerOrphanDependents)
}

// classify asks the API for each owner. The references are what was found until an error.
func (c *collector) classify(ctx context.Context, n *node, refs []metav1.OwnerReference) (*references, error) {
	out := &references{}
	for _, ref := range refs {
		owner, misplaced, err := c.owner(ctx, n, ref)
		if misplaced {
			out.misplaced = append(out.misplaced, ref)
		}
		switch {
		case err != nil:
			return out, err
		case owner == nil:
			out.dangling = append(out.dangling, ref.UID)
		case owner.DeletionTimestamp != nil && slices.Contains(owner.Finalizers, metav1.FinalizerDeleteDependents):
			out.waiting = append(out.waiting, ref.UID)
		default:
			out.solid = append(out.solid, ref)
			out.unseen = out.unseen || c.graph.node(ref.UID) == nil
		}
	}
	return out, nil
}

// owner returns the owner that the reference names, nil if there is none. It is misplaced if
// there is one in a namespace where it cannot be the object's.
func (c *collector) owner(ctx context.Context, n *node, ref metav1.OwnerReference) (owner *metav1.PartialObjectMetadata, misplaced bool, err error) {
	key := absentKey{group: groupOf(ref.APIVersion), kind: ref.Kind, name: ref.Name, uid: ref.UID}
	if _, absent := c.graph.absent.Get(key); absent {
		return nil, false, nil
	}
	key.namespace = n.namespace
	if _, absent := c.graph.absent.Get(key); absent {
		return nil, false, nil
	}
	k, err := c.found.Load().owner(ref)
	if err != nil {
		return nil, false, queue.Quiet(err) // its kind may be served one day
	}
	if k.namespaced && n.namespace == "" {
		return nil, true, errNamespacedOwner
	}
	namespace := ""
	if k.namespaced {
		namespace = n.namespace
	}
	key.namespace = namespace
	owner, err = c.objects.Resource(k.resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if isGone(err) || err == nil && owner.UID != ref.UID {
		seen := c.graph.node(ref.UID)
		c.graph.absent.Add(key, nil)
		return nil, seen != nil && seen.namespace != "" && seen.namespace != n.namespace, nil
	}
	return owner, false, err
}

// tellMisplaced makes an event of each misplaced owner.
func (c *collector) tellMisplaced(n *node, refs *references) {
	of := &corev1.ObjectReference{
		APIVersion: n.resource.GroupVersion().String(), Kind: n.kind, Namespace: n.namespace, Name: n.name, UID: n.uid,
	}
	for _, ref := range refs.misplaced {
		c.recorder.Eventf(of, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", "ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
			ref.APIVersion, ref.Kind, n.namespace, ref.Name, ref.UID, n.namespace)
	}
}
