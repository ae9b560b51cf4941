package revisions

import (
	"bytes"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"pintle.dev/pintle/plugins/controllers/ownership"
)

// History reads and writes the revisions of the owners of one kind.
type History struct {
	client  kubernetes.Interface
	indexer cache.Indexer
	kind    schema.GroupVersionKind
}

// NewHistory returns the history of owners of the kind. The informer is that of
// ControllerRevisions; it must not have started, or have the index of ownership.
func NewHistory(client kubernetes.Interface, informer cache.SharedIndexInformer, kind schema.GroupVersionKind) (*History, error) {
	if err := ownership.Index(informer); err != nil {
		return nil, fmt.Errorf("index of controller revisions by owner: %w", err)
	}
	return &History{client: client, indexer: informer.GetIndexer(), kind: kind}, nil
}

func (h *History) of(namespace string) appsclient.ControllerRevisionInterface {
	return h.client.AppsV1().ControllerRevisions(namespace)
}

// List returns the revisions that match the selector and that the owner
// controls, or that have no controller; sorted. They are objects of the cache.
func (h *History) List(owner metav1.Object, selector labels.Selector) ([]*appsv1.ControllerRevision, error) {
	owned, err := ownership.Children[*appsv1.ControllerRevision](h.indexer, owner.GetUID())
	if err != nil {
		return nil, fmt.Errorf("controller revisions of %s/%s: %w", owner.GetNamespace(), owner.GetName(), err)
	}
	orphans, err := ownership.Orphans[*appsv1.ControllerRevision](h.indexer, owner.GetNamespace())
	if err != nil {
		return nil, fmt.Errorf("controller revisions of %s/%s: %w", owner.GetNamespace(), owner.GetName(), err)
	}
	var found []*appsv1.ControllerRevision
	for _, r := range append(owned, orphans...) {
		if r.Namespace == owner.GetNamespace() && selector.Matches(labels.Set(r.Labels)) {
			found = append(found, r)
		}
	}
	Sort(found)
	return found, nil
}

// Create writes the revision under a name of its data and *collisions. While
// other data has the name, *collisions grows by one and the next name is tried.
// A revision that is there with the same data is returned as it is.
func (h *History) Create(ctx context.Context, owner metav1.Object, r *appsv1.ControllerRevision, collisions *int32) (*appsv1.ControllerRevision, error) {
	if collisions == nil {
		return nil, fmt.Errorf("create a controller revision of %s/%s: no collision count", owner.GetNamespace(), owner.GetName())
	}
	r = r.DeepCopy()
	for {
		r.Name = Name(owner.GetName(), Hash(r.Data.Raw, collisions))
		made, err := h.of(owner.GetNamespace()).Create(ctx, r, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			if err != nil {
				return nil, fmt.Errorf("create controller revision %s/%s: %w", owner.GetNamespace(), r.Name, err)
			}
			return made, nil
		}
		there, err := h.of(owner.GetNamespace()).Get(ctx, r.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get controller revision %s/%s, whose name is taken: %w", owner.GetNamespace(), r.Name, err)
		}
		if bytes.Equal(there.Data.Raw, r.Data.Raw) {
			return there, nil
		}
		*collisions++
	}
}

// Renumber gives the revision another number, also if it changed meanwhile.
func (h *History) Renumber(ctx context.Context, r *appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	r = r.DeepCopy()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if r.Revision == number {
			return nil
		}
		r.Revision = number
		updated, err := h.of(r.Namespace).Update(ctx, r, metav1.UpdateOptions{})
		if err == nil {
			r = updated
			return nil
		}
		if apierrors.IsConflict(err) {
			fresh, fault := h.of(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
			if fault != nil {
				return fault
			}
			r = fresh
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("set number %d of controller revision %s/%s: %w", number, r.Namespace, r.Name, err)
	}
	return r, nil
}

// Adopt makes the owner the controller of those of the revisions that have
// none. Before the first adoption fresh reads the owner from the API: one that
// is being deleted, or is another object by now, adopts nothing, which is an error.
func (h *History) Adopt(ctx context.Context, owner metav1.Object, all []*appsv1.ControllerRevision, fresh func(ctx context.Context) (metav1.Object, error)) error {
	var orphans []*appsv1.ControllerRevision
	for _, r := range all {
		if metav1.GetControllerOfNoCopy(r) == nil {
			orphans = append(orphans, r)
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	_, err := ownership.Claim(ctx, &ownership.Claimer{
		Owner: owner, Kind: h.kind, Selector: labels.Everything(), Fresh: fresh, Patch: h.patch,
	}, orphans, nil)
	return err
}

// Release takes the owner out of the revision's references. A revision that is
// gone, or has another owner by now, is none of its.
func (h *History) Release(ctx context.Context, owner metav1.Object, r *appsv1.ControllerRevision) error {
	patch, err := ownership.ReleasePatch(r.UID, owner.GetUID())
	if err != nil {
		return err
	}
	err = h.patch(ctx, r.Namespace, r.Name, patch)
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

func (h *History) patch(ctx context.Context, namespace, name string, patch []byte) error {
	_, err := h.of(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Truncate deletes the oldest of the sorted revisions until limit of them are
// left besides the live ones. A negative limit deletes nothing. Each is deleted
// only as the object that was listed.
func (h *History) Truncate(ctx context.Context, sorted []*appsv1.ControllerRevision, limit int, live func(*appsv1.ControllerRevision) bool) error {
	if limit < 0 {
		return nil
	}
	var old []*appsv1.ControllerRevision
	for _, r := range sorted {
		if !live(r) {
			old = append(old, r)
		}
	}
	for _, r := range old[:max(0, len(old)-limit)] {
		if err := h.Delete(ctx, r); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err // one that is gone, or another by now, is as good as deleted
		}
	}
	return nil
}

// Delete deletes the revision. One that is gone, or is another object of the
// name by now, is an error of reason NotFound or Conflict.
func (h *History) Delete(ctx context.Context, r *appsv1.ControllerRevision) error {
	err := h.of(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(r.UID))})
	if err != nil {
		return fmt.Errorf("delete controller revision %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}
