//go:build !wasip1

// Replicas is somebody else's controller of ReplicaSets, under the name of its bundle's
// folder. It knows nothing of the built-in one: it asks the API again and again what there
// is, and makes or deletes a pod at a time.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/sdk/controller"
)

// interval is how often it looks.
const interval = 100 * time.Millisecond

func main() {
	controller.Serve(controller.Controller{Name: filepath.Base(filepath.Dir(os.Args[0])), New: func(c *controller.Context) (controller.Runner, error) {
		return controller.RunnerFunc(func(ctx context.Context) error {
			for {
				if err := look(ctx, c.Client); err != nil && ctx.Err() == nil {
					c.Logger.Warn("it looks again", "error", err)
				}
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(interval):
				}
			}
		}), nil
	}})
}

func look(ctx context.Context, client kubernetes.Interface) error {
	sets, err := client.AppsV1().ReplicaSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range sets.Items {
		if set := &sets.Items[i]; set.DeletionTimestamp == nil {
			if err := keep(ctx, client, set); err != nil {
				return fmt.Errorf("replica set %s/%s: %w", set.Namespace, set.Name, err)
			}
		}
	}
	return nil
}

// keep makes or deletes pods until there are as many as the set wants.
func keep(ctx context.Context, client kubernetes.Interface, set *appsv1.ReplicaSet) error {
	pods := client.CoreV1().Pods(set.Namespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector)})
	if err != nil {
		return err
	}
	var own []string
	for i := range list.Items {
		if p := &list.Items[i]; metav1.IsControlledBy(p, set) && p.DeletionTimestamp == nil {
			own = append(own, p.Name)
		}
	}
	yes := true
	for n := len(own); n < int(*set.Spec.Replicas) && ctx.Err() == nil; n++ {
		pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
		pod.GenerateName = set.Name + "-"
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: &yes}}
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for n := len(own); n > int(*set.Spec.Replicas) && ctx.Err() == nil; n-- {
		if err := pods.Delete(ctx, own[n-1], metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
