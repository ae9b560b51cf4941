package daemonset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/ownership"
)

// patchOf is the data of the set's revision: a patch that puts the template back,
// which kubectl rollout undo sends.
func patchOf(ds *appsv1.DaemonSet) ([]byte, error) {
	text, err := json.Marshal(&ds.Spec.Template)
	if err != nil {
		return nil, err
	}
	var template map[string]any
	if err := json.Unmarshal(text, &template); err != nil {
		return nil, err
	}
	template["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
}

// findRevisions sets the revision of the template, which it makes if it is
// missing, and the others. Of several of one template the newest stays.
func (r *run) findRevisions(ctx context.Context) error {
	all, err := r.claimRevisions(ctx)
	if err != nil {
		return err
	}
	data, err := patchOf(r.ds)
	if err != nil {
		return err
	}
	var current []*appsv1.ControllerRevision
	for _, c := range all {
		if _, there := c.Labels[hashLabel]; !there {
			c = c.DeepCopy()
			if c.Labels == nil {
				c.Labels = map[string]string{}
			}
			c.Labels[hashLabel] = c.Name
			if c, err = r.client.AppsV1().ControllerRevisions(c.Namespace).Update(ctx, c, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		if bytes.Equal(c.Data.Raw, data) {
			current = append(current, c)
		} else {
			r.old = append(r.old, c)
		}
	}
	number := int64(1)
	for _, c := range r.old {
		number = max(number, c.Revision+1)
	}
	if len(current) == 0 {
		made, err := r.snapshot(ctx, data, number)
		if err != nil {
			return err
		}
		r.hash = made.Labels[hashLabel]
		return nil
	}
	kept, err := r.dedup(ctx, current)
	if err != nil {
		return err
	}
	r.hash = kept.Labels[hashLabel]
	if kept.Revision < number {
		_, err = r.history.Renumber(ctx, kept, number)
	}
	return err
}

func (r *run) claimRevisions(ctx context.Context) ([]*appsv1.ControllerRevision, error) {
	owned, err := ownership.Children[*appsv1.ControllerRevision](r.revisions, r.ds.UID)
	if err != nil {
		return nil, err
	}
	orphans, err := ownership.Orphans[*appsv1.ControllerRevision](r.revisions, r.ds.Namespace)
	if err != nil {
		return nil, err
	}
	return ownership.Claim(ctx, &ownership.Claimer{
		Owner: r.ds, Kind: gvk, Selector: r.selector, Fresh: r.fresh(r.ds),
		Patch: func(ctx context.Context, namespace, name string, patch []byte) error {
			_, err := r.client.AppsV1().ControllerRevisions(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	}, append(owned, orphans...), nil)
}

// dedup keeps the newest of the revisions of one template. Pods of the others are
// given its hash first.
func (r *run) dedup(ctx context.Context, same []*appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	kept := slices.MaxFunc(same, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	if len(same) == 1 {
		return kept, nil
	}
	pods, err := r.claim(ctx, r.ds, r.selector)
	if err != nil {
		return nil, err
	}
	hash := kept.Labels[hashLabel]
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{hashLabel: hash}}})
	if err != nil {
		return nil, err
	}
	for _, p := range pods {
		if p.Labels[hashLabel] != hash {
			if _, err := r.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range same {
		if c.Name != kept.Name {
			if err := r.history.Delete(ctx, c); err != nil {
				return nil, err
			}
		}
	}
	return kept, nil
}

// snapshot makes the revision of the template.
func (r *run) snapshot(ctx context.Context, data []byte, number int64) (*appsv1.ControllerRevision, error) {
	hash := templateHash(&r.ds.Spec.Template, r.ds.Status.CollisionCount)
	labels := map[string]string{}
	maps.Copy(labels, r.ds.Spec.Template.Labels)
	labels[hashLabel] = hash
	wanted := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: r.ds.Name + "-" + hash, Namespace: r.ds.Namespace, Labels: labels, Annotations: r.ds.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r.ds, gvk)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
	revisions := r.client.AppsV1().ControllerRevisions(r.ds.Namespace)
	made, taken := revisions.Create(ctx, wanted, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(taken) {
		return made, taken
	}
	there, err := revisions.Get(ctx, wanted.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if bytes.Equal(there.Data.Raw, data) {
		return there, nil
	}
	// Another template has the hash: the next sync takes another one.
	sets := r.client.AppsV1().DaemonSets(r.ds.Namespace)
	fresh, err := sets.Get(ctx, r.ds.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if !ptr.Equal(fresh.Status.CollisionCount, r.ds.Status.CollisionCount) {
		return nil, fmt.Errorf("found a stale collision count (%d, expected %d) of DaemonSet %q while processing; will retry until it is updated",
			ptr.Deref(r.ds.Status.CollisionCount, 0), ptr.Deref(fresh.Status.CollisionCount, 0), r.ds.Name)
	}
	fresh.Status.CollisionCount = ptr.To(ptr.Deref(fresh.Status.CollisionCount, 0) + 1)
	if _, err := sets.UpdateStatus(ctx, fresh, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	return nil, taken
}

// prune deletes the oldest revisions beyond the limit, but none that a pod has.
func (r *run) prune(ctx context.Context) error {
	excess := len(r.old) - int(ptr.Deref(r.ds.Spec.RevisionHistoryLimit, 10))
	if excess <= 0 {
		return nil
	}
	nodes, err := r.podsByNode(ctx, true)
	if err != nil {
		return err
	}
	live := map[string]bool{}
	for _, pods := range nodes {
		for _, p := range pods {
			live[p.Labels[hashLabel]] = true
		}
	}
	slices.SortFunc(r.old, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Name, b.Name))
	})
	for _, c := range r.old {
		if excess > 0 && !live[c.Labels[hashLabel]] {
			if err := r.history.Delete(ctx, c); err != nil {
				return fmt.Errorf("failed to clean up revisions of DaemonSet: %w", err)
			}
			excess--
		}
	}
	return nil
}
