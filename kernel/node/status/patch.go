package status

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// patchBody is the strategic merge patch that makes want of a pod's status old. The UID makes it
// fail where the name belongs to another pod by now. The statuses are compared as the objects that
// their JSON is: writing the JSON and reading it back cost more than the comparison.
func patchBody(uid types.UID, old, want *corev1.PodStatus) ([]byte, error) {
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(old)
	if err != nil {
		return nil, fmt.Errorf("take the old status apart: %w", err)
	}
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return nil, fmt.Errorf("take the status apart: %w", err)
	}
	change, err := strategicpatch.CreateTwoWayMergeMapPatch(before, after, corev1.PodStatus{})
	if err != nil {
		return nil, fmt.Errorf("compare with the old status: %w", err)
	}
	return json.Marshal(struct {
		Metadata metav1.ObjectMeta      `json:"metadata"`
		Status   strategicpatch.JSONMap `json:"status,omitempty"`
	}{metav1.ObjectMeta{UID: uid}, change})
}
