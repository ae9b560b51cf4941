package api

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
)

// SetPodStatus sets a condition of a pod's status, unless it is nil, and
// status.nominatedNodeName, unless that is nil, in one write and without HTTP, as
// Bind does. The pod must have the UID; one that is on a node is
// nominated to none. A pod that is not there gives NotFound.
func (s *Server) SetPodStatus(ctx context.Context, namespace, name string, uid types.UID, condition *corev1.PodCondition, nominated *string) error {
	change := func(obj runtime.Object) (runtime.Object, error) {
		before, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, fmt.Errorf("unexpected object: %#v", obj)
		}
		pod := *before
		if condition != nil {
			pod.Status.Conditions = withCondition(pod.Status.Conditions, *condition)
		}
		if nominated != nil && (*nominated == "" || pod.Spec.NodeName == "") { // as validation has it
			pod.Status.NominatedNodeName = *nominated
		}
		return &pod, nil
	}
	if s.admit.Reviewed(updatesOfStatus) {
		return s.setPodStatusAsked(ctx, namespace, name, uid, change)
	}
	return s.binding.replace(request.WithNamespace(ctx, namespace), name, &storage.Preconditions{UID: &uid}, false, change)
}
