package statefulset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/revisions"
)

// templatePatch is the data of a revision: the patch that gives a set the pod
// template of now. Its bytes are upstream's.
func templatePatch(set *appsv1.StatefulSet) ([]byte, error) {
	data, err := json.Marshal(set.Spec.Template)
	if err != nil {
		return nil, err
	}
	var template map[string]any
	if err := json.Unmarshal(data, &template); err != nil {
		return nil, err
	}
	template["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
}

func newRevision(set *appsv1.StatefulSet, number int64, collisions *int32) (*appsv1.ControllerRevision, error) {
	data, err := templatePatch(set)
	if err != nil {
		return nil, fmt.Errorf("revision of stateful set %s/%s: %w", set.Namespace, set.Name, err)
	}
	r := revisions.New(set, gvk, set.Spec.Template.Labels, data, number, collisions)
	r.Annotations = maps.Clone(set.Annotations)
	return r, nil
}

// restore returns the set with the pod template of the revision. What else the
// revision says is ignored.
func restore(set *appsv1.StatefulSet, r *appsv1.ControllerRevision) (*appsv1.StatefulSet, error) {
	data, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	patched, err := strategicpatch.StrategicMergePatch(data, r.Data.Raw, appsv1.StatefulSet{})
	if err != nil {
		return nil, fmt.Errorf("controller revision %s/%s cannot be applied: %w", r.Namespace, r.Name, err)
	}
	var restored struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(patched, &restored); err != nil {
		return nil, fmt.Errorf("controller revision %s/%s holds no pod template: %w", r.Namespace, r.Name, err)
	}
	set = set.DeepCopy()
	set.Spec.Template = restored.Spec.Template
	return set, nil
}

// revisions returns the revision that the pods had and the one that they should
// have, of the sorted ones. It creates the latter, or gives an older equal one the
// next number, if the set's template is not the latest.
func (k *keeper) revisions(ctx context.Context, set *appsv1.StatefulSet, all []*appsv1.ControllerRevision) (current, update *appsv1.ControllerRevision, collisions int32, err error) {
	collisions = ptr.Deref(set.Status.CollisionCount, 0)
	wanted, err := newRevision(set, revisions.Next(all), &collisions)
	if err != nil {
		return nil, nil, collisions, err
	}
	update, err = k.updateRevision(ctx, set, all, wanted, &collisions)
	if err != nil {
		return nil, nil, collisions, err
	}
	current = update
	for _, r := range all {
		if r.Name == set.Status.CurrentRevision {
			current = r
		}
	}
	return current, update, collisions, nil
}

func (k *keeper) updateRevision(ctx context.Context, set *appsv1.StatefulSet, all []*appsv1.ControllerRevision, wanted *appsv1.ControllerRevision, collisions *int32) (*appsv1.ControllerRevision, error) {
	if len(all) == 0 {
		return k.history.Create(ctx, set, wanted, collisions)
	}
	latest := all[len(all)-1]
	if revisions.Equal(latest, wanted) {
		return latest, nil
	}
	if equal := revisions.EqualTo(all, wanted); len(equal) > 0 {
		return k.history.Renumber(ctx, equal[len(equal)-1], wanted.Revision)
	}
	same, err := k.memory.Same(ctx, set, wanted, latest, func(ctx context.Context, latest *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
		return k.rebuild(ctx, set, latest)
	})
	if err != nil {
		return nil, err
	}
	if same {
		return latest, nil
	}
	return k.history.Create(ctx, set, wanted, collisions)
}

// rebuild returns the revision of the set with the template of the latest one and
// the defaults of now. Only the API server knows those: it is asked to create a
// PodTemplate, as a dry run.
func (k *keeper) rebuild(ctx context.Context, set *appsv1.StatefulSet, latest *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	restored, err := restore(set, latest)
	if err != nil {
		return latest, nil // cannot mean the same
	}
	template := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{GenerateName: set.Name + "-", Namespace: set.Namespace}, Template: restored.Spec.Template,
	}
	made, err := k.client.CoreV1().PodTemplates(set.Namespace).Create(ctx, template, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		restored.Spec.Template = made.Template
		return newRevision(restored, latest.Revision, nil)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return latest, nil // it is not known, so the bytes decide
	}
	return nil, fmt.Errorf("defaults of the pod template of controller revision %s/%s: %w", latest.Namespace, latest.Name, err)
}

func historyLimit(set *appsv1.StatefulSet) int {
	return int(ptr.Deref(set.Spec.RevisionHistoryLimit, 10))
}
