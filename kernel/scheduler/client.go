package scheduler

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// FromClient returns sources, binder and condition writer over a client: how
// the scheduler works beside a kernel elsewhere, and in one process through its
// in-process transport. Profiles, events and log are the caller's to add.
func FromClient(client kubernetes.Interface) Deps {
	core, apps, policy := client.CoreV1().RESTClient(), client.AppsV1().RESTClient(), client.PolicyV1().RESTClient()
	all := func(getter cache.Getter, resource string) cache.ListerWatcher {
		return cache.NewListWatchFromClient(getter, resource, metav1.NamespaceAll, fields.Everything())
	}
	return Deps{
		Pods:  all(core, "pods"),
		Nodes: all(core, "nodes"),
		Objects: map[string]cache.ListerWatcher{
			"Service":               all(core, "services"),
			"ReplicationController": all(core, "replicationcontrollers"),
			"ReplicaSet":            all(apps, "replicasets"),
			"StatefulSet":           all(apps, "statefulsets"),
			"PersistentVolume":      all(core, "persistentvolumes"),
			"PersistentVolumeClaim": all(core, "persistentvolumeclaims"),
			"Namespace":             all(core, "namespaces"),
			"PodDisruptionBudget":   all(policy, "poddisruptionbudgets"),
		},
		Bind: func(ctx context.Context, binding *v1.Binding) error {
			return client.CoreV1().Pods(binding.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
		},
		Condition: func(ctx context.Context, pod *v1.Pod, condition *v1.PodCondition) error {
			patch, err := json.Marshal(map[string]any{
				"metadata": map[string]any{"uid": pod.UID},
				"status":   map[string]any{"conditions": []*v1.PodCondition{condition}},
			})
			if err != nil {
				return fmt.Errorf("patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			_, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		},
		Status: func(ctx context.Context, pod *v1.Pod, condition *v1.PodCondition, nominated *string) error {
			status := map[string]any{}
			if condition != nil {
				status["conditions"] = []*v1.PodCondition{condition}
			}
			if nominated != nil {
				status["nominatedNodeName"] = *nominated
				if *nominated == "" {
					status["nominatedNodeName"] = nil
				}
			}
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
			if err != nil {
				return fmt.Errorf("patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			_, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		},
		Evict: func(ctx context.Context, victim *v1.Pod, condition *v1.PodCondition) error {
			condition.LastTransitionTime = metav1.Now()
			patch, err := json.Marshal(map[string]any{
				"metadata": map[string]any{"uid": victim.UID},
				"status":   map[string]any{"conditions": []*v1.PodCondition{condition}},
			})
			if err != nil {
				return fmt.Errorf("patch of pod %s/%s: %w", victim.Namespace, victim.Name, err)
			}
			pods := client.CoreV1().Pods(victim.Namespace)
			if _, err := pods.Patch(ctx, victim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
				return err
			}
			return pods.Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &victim.UID}})
		},
		Nominate: func(ctx context.Context, pod *v1.Pod, node string) error {
			patch, err := json.Marshal(map[string]any{
				"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"nominatedNodeName": node},
			})
			if err != nil {
				return fmt.Errorf("patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			_, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		},
	}
}
