package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ownerRings: objects that own each other, or themselves, stay while nobody deletes one of
// them, and all go when somebody does.
func ownerRings(t *testing.T, e *env) {
	ns := e.namespace(t)
	maps := e.client.CoreV1().ConfigMaps(ns)
	rings := map[string]metav1.DeletionPropagation{}
	sizes := map[string]int{}
	for _, size := range []int{1, 2, 5} {
		for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
			ring := fmt.Sprintf("%c%d", policy[0]+'a'-'A', size)
			rings[ring], sizes[ring] = policy, size
			uids := make([]types.UID, size)
			for i := range size {
				m, err := maps.Create(bound(t), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", ring, i), Labels: map[string]string{"ring": ring}}}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				uids[i] = m.UID
			}
			for i := range size {
				owner := (i + 1) % size
				patch := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"%s-%d","uid":%q,"blockOwnerDeletion":true}]}}`, ring, owner, uids[owner])
				if _, err := maps.Patch(bound(t), fmt.Sprintf("%s-%d", ring, i), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	// One whose owner is gone shows that the collector has seen the rings.
	lost := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lost", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "nothing", UID: "nothing"}}}}
	if _, err := maps.Create(bound(t), lost, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	left := func(ctx context.Context, selector string) (int, error) {
		list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return 0, err
		}
		return len(list.Items), nil
	}
	eventually(t, func(ctx context.Context) error {
		if list, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=lost"}); err != nil || len(list.Items) > 0 {
			return fmt.Errorf("the one without an owner is there: %v", err)
		}
		return nil
	})
	for ring, policy := range rings {
		if n, err := left(bound(t), "ring="+ring); err != nil || n != sizes[ring] {
			t.Errorf("ring %s has %d objects before one is deleted: %v", ring, n, err)
		}
		if err := maps.Delete(bound(t), ring+"-0", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func(ctx context.Context) error {
		if n, err := left(ctx, "ring"); err != nil || n > 0 {
			return fmt.Errorf("%d objects are left of rings: %v", n, err)
		}
		return nil
	})
}
