package ownership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Claimer decides which objects an owner controls.
type Claimer struct {
	Owner    metav1.Object
	Kind     schema.GroupVersionKind // of the owner
	Selector labels.Selector
	// Finalizers are put on what is adopted and taken off what is released.
	Finalizers []string
	// Fresh reads the owner from the API, not from a cache. It is called at
	// most once, before the first adoption.
	Fresh func(ctx context.Context) (metav1.Object, error)
	// Patch sends a strategic merge patch to a child.
	Patch func(ctx context.Context, namespace, name string, patch []byte) error

	once     sync.Once
	adoptErr error
}

// Claim returns those of the objects that the owner controls after adoptions
// and releases; match, if given, has a say besides the selector. Objects that
// are gone meanwhile are left out; other failures are joined to the error and
// the rest is done nevertheless.
func Claim[T metav1.Object](ctx context.Context, c *Claimer, objects []T, match func(T) bool) ([]T, error) {
	var claimed []T
	var faults []error
	for _, obj := range objects {
		ok, err := c.claim(ctx, obj, func() bool {
			return c.Selector.Matches(labels.Set(obj.GetLabels())) && (match == nil || match(obj))
		})
		if err != nil {
			faults = append(faults, err)
		} else if ok {
			claimed = append(claimed, obj)
		}
	}
	return claimed, errors.Join(faults...)
}

func (c *Claimer) claim(ctx context.Context, obj metav1.Object, match func() bool) (bool, error) {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		if ref.UID != c.Owner.GetUID() {
			return false, nil
		}
		if match() {
			return true, nil
		}
		if c.Owner.GetDeletionTimestamp() != nil {
			return false, nil
		}
		return false, c.release(ctx, obj)
	}
	if c.Owner.GetDeletionTimestamp() != nil || !match() || obj.GetDeletionTimestamp() != nil {
		return false, nil
	}
	if c.Owner.GetNamespace() != "" && c.Owner.GetNamespace() != obj.GetNamespace() {
		return false, nil
	}
	err := c.adopt(ctx, obj)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (c *Claimer) adopt(ctx context.Context, obj metav1.Object) error {
	c.once.Do(func() { c.adoptErr = c.mayAdopt(ctx) })
	if c.adoptErr != nil {
		return fmt.Errorf("can't adopt %s %s/%s (%s): %w", c.Kind.Kind, obj.GetNamespace(), obj.GetName(), obj.GetUID(), c.adoptErr)
	}
	meta := map[string]any{
		"uid":             obj.GetUID(),
		"ownerReferences": []metav1.OwnerReference{*metav1.NewControllerRef(c.Owner, c.Kind)},
	}
	if len(c.Finalizers) > 0 {
		meta["finalizers"] = c.Finalizers
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return err
	}
	return c.Patch(ctx, obj.GetNamespace(), obj.GetName(), patch)
}

func (c *Claimer) mayAdopt(ctx context.Context) error {
	fresh, err := c.Fresh(ctx)
	if err != nil {
		return fmt.Errorf("can't recheck DeletionTimestamp: %w", err)
	}
	if fresh.GetUID() != c.Owner.GetUID() {
		return fmt.Errorf("original %s %s/%s is gone: got uid %s, wanted %s",
			c.Kind.Kind, c.Owner.GetNamespace(), c.Owner.GetName(), fresh.GetUID(), c.Owner.GetUID())
	}
	if fresh.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s/%s has just been deleted at %v", fresh.GetNamespace(), fresh.GetName(), fresh.GetDeletionTimestamp())
	}
	return nil
}

func (c *Claimer) release(ctx context.Context, obj metav1.Object) error {
	patch, err := releasePatch(obj.GetUID(), c.Finalizers, c.Owner.GetUID())
	if err != nil {
		return err
	}
	err = c.Patch(ctx, obj.GetNamespace(), obj.GetName(), patch)
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		// Gone, or the reference or the UID is another by now: either way the
		// child is no longer ours.
		return nil
	}
	return err
}

// ReleasePatch is the strategic merge patch that takes the owners out of the
// child's references.
func ReleasePatch(child types.UID, owners ...types.UID) ([]byte, error) {
	return releasePatch(child, nil, owners...)
}

func releasePatch(child types.UID, finalizers []string, owners ...types.UID) ([]byte, error) {
	refs := make([]map[string]any, 0, len(owners))
	for _, uid := range owners {
		refs = append(refs, map[string]any{"$patch": "delete", "uid": uid})
	}
	meta := map[string]any{"uid": child, "ownerReferences": refs}
	if len(finalizers) > 0 {
		meta["$deleteFromPrimitiveList/finalizers"] = finalizers
	}
	return json.Marshal(map[string]any{"metadata": meta})
}
