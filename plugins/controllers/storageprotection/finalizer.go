package storageprotection

import (
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// finalizer is what protects a kind.
type finalizer string

// Upstream's finalizers.
const (
	ofClaims  finalizer = "kubernetes.io/pvc-protection"
	ofVolumes finalizer = "kubernetes.io/pv-protection"
	ofClasses finalizer = "kubernetes.io/vac-protection"
)

// waits tells that an object is deleted and has the finalizer.
func (f finalizer) waits(o metav1.Object) bool {
	return o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), string(f))
}

// lacks tells that an object is to live on, without the finalizer.
func (f finalizer) lacks(o metav1.Object) bool {
	return o.GetDeletionTimestamp() == nil && !slices.Contains(o.GetFinalizers(), string(f))
}

// concerns tells that there may be something to do.
func (f finalizer) concerns(o metav1.Object) bool { return f.waits(o) || f.lacks(o) }

// keep has the object's finalizer added or taken away, where that is due. inUse is
// asked about objects that are deleted.
func (f finalizer) keep(o metav1.Object, inUse func() (bool, error), patch func(patch []byte) error) error {
	field := "finalizers"
	switch {
	case f.waits(o):
		if used, err := inUse(); err != nil || used {
			return err
		}
		field = "$deleteFromPrimitiveList/finalizers"
	case !f.lacks(o):
		return nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), field: []finalizer{f},
	}})
	if err != nil {
		return err
	}
	if err := patch(body); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("finalizer %s of %s: %w", f, o.GetName(), err)
	}
	return nil
}
