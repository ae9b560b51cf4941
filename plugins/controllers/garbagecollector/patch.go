package garbagecollector

import (
	"context"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/retry"

	"pintle.dev/pintle/plugins/controllers/ownership"
)

func (c *collector) at(n *node) metadata.ResourceInterface {
	return c.objects.Resource(n.resource).Namespace(n.namespace)
}

func (c *collector) get(ctx context.Context, n *node) (*metav1.PartialObjectMetadata, error) {
	return c.at(n).Get(ctx, n.name, metav1.GetOptions{})
}

// delete deletes the state of the object that was looked at, or a later one of
// the same owners: an object that changes all the time in other ways goes too.
// With other owners it is a conflict, and another look.
func (c *collector) delete(ctx context.Context, n *node, looked *metav1.PartialObjectMetadata, policy metav1.DeletionPropagation) error {
	options := metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &n.uid, ResourceVersion: &looked.ResourceVersion},
		PropagationPolicy: &policy,
	}
	err := c.at(n).Delete(ctx, n.name, options)
	if !apierrors.IsConflict(err) {
		return err
	}
	live, liveErr := c.get(ctx, n)
	if isGone(liveErr) {
		return liveErr
	}
	if liveErr != nil || live.UID != n.uid || !equality.Semantic.DeepEqual(live.OwnerReferences, looked.OwnerReferences) {
		return err
	}
	options.Preconditions = metav1.NewUIDPreconditions(string(n.uid))
	return c.at(n).Delete(ctx, n.name, options)
}

// patch sends the strategic merge patch, or for kinds that have none, as
// custom ones, a merge patch of the references that rewrite makes of the
// latest ones.
func (c *collector) patch(ctx context.Context, n *node, strategic []byte, rewrite func([]metav1.OwnerReference) []metav1.OwnerReference) error {
	_, err := c.at(n).Patch(ctx, n.name, types.StrategicMergePatchType, strategic, metav1.PatchOptions{})
	if !apierrors.IsUnsupportedMediaType(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		latest, err := c.get(ctx, n)
		if err != nil || latest.UID != n.uid {
			return err
		}
		return c.merge(ctx, n, latest.ResourceVersion, "ownerReferences", rewrite(latest.OwnerReferences))
	})
}

// merge replaces one field of the metadata of exactly the given version.
func (c *collector) merge(ctx context.Context, n *node, version, field string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.uid, "resourceVersion": version, field: value}})
	if err != nil {
		return err
	}
	_, err = c.at(n).Patch(ctx, n.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// removeOwners takes the owners out of the object's references.
func (c *collector) removeOwners(ctx context.Context, n *node, owners []types.UID) error {
	strategic, err := ownership.ReleasePatch(n.uid, owners...)
	if err != nil {
		return err
	}
	return c.patch(ctx, n, strategic, func(refs []metav1.OwnerReference) []metav1.OwnerReference {
		return slices.DeleteFunc(refs, func(r metav1.OwnerReference) bool { return slices.Contains(owners, r.UID) })
	})
}

// unblockOwners lets the owners be deleted before the object.
func (c *collector) unblockOwners(ctx context.Context, n *node, latest *metav1.PartialObjectMetadata) error {
	unblocked := func(refs []metav1.OwnerReference) []metav1.OwnerReference {
		refs = slices.Clone(refs)
		for i := range refs {
			if blocks(refs[i]) {
				refs[i].BlockOwnerDeletion = new(bool)
			}
		}
		return refs
	}
	strategic, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.uid, "ownerReferences": unblocked(latest.OwnerReferences)}})
	if err != nil {
		return err
	}
	return c.patch(ctx, n, strategic, unblocked)
}

// removeFinalizer takes one finalizer off.
func (c *collector) removeFinalizer(ctx context.Context, n *node, finalizer string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		latest, err := c.get(ctx, n)
		if isGone(err) || err == nil && latest.UID != n.uid {
			return nil
		}
		if err != nil {
			return err
		}
		if !slices.Contains(latest.Finalizers, finalizer) {
			return nil
		}
		left := slices.DeleteFunc(latest.Finalizers, func(f string) bool { return f == finalizer })
		return ignoreGone(c.merge(ctx, n, latest.ResourceVersion, "finalizers", left))
	})
}
