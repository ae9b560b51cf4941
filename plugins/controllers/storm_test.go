package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/controller"
)

// stormed are the controllers that follow pods by the typed client alone.
var stormed = []string{
	"daemonset", "deployment", "devicetainteviction", "disruption", "endpoints", "endpointslice", "ephemeral-volume", "job",
	"podgc", "pvc-protection", "replicaset", "replication", "resourceclaim", "statefulset", "tainteviction",
}

// stormedObjects are a pod that runs and what looks at it, all as their controllers leave
// them.
func stormedObjects() (*corev1.Pod, []runtime.Object) {
	app := map[string]string{"app": "web"}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "set"},
		Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: app}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}},
		}},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-1", UID: "pod", Labels: app, CreationTimestamp: metav1.Now(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: corev1.PodSpec{NodeName: "n", Containers: set.Spec.Template.Spec.Containers},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.1.0.1", PodIPs: []corev1.PodIP{{IP: "10.1.0.1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
		},
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "service"},
		Spec:       corev1.ServiceSpec{Selector: app, ClusterIP: "10.96.0.9", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "budget"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: app}},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node"}}
	return pod, []runtime.Object{pod, set, service, budget, node}
}

// Half a million changes of one pod, such as a program makes that writes its annotation
// all the time, cost no controller a call.
func TestHalfAMillionChangesOfOnePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod, objects := stormedObjects()
		client := fake.NewClientset(objects...)
		storm := watch.NewFake()
		client.PrependWatchReactor("pods", func(k8stesting.Action) (bool, watch.Interface, error) { return true, storm, nil })
		shared := informers.NewSharedInformerFactory(client, 0)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		began := 0
		for _, c := range bundle() {
			if !slices.Contains(stormed, c.Name) {
				continue
			}
			runner, err := c.New(&controller.Context{
				Name: c.Name, Logger: slog.New(slog.DiscardHandler), Client: client, Informers: shared,
				RESTConfig: &rest.Config{Host: "http://127.0.0.1:1"}, BundleConfig: &rest.Config{Host: "http://127.0.0.1:1"},
			})
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			began++
			running.Go(func() {
				if err := runner.Run(ctx); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			})
		}
		if began != len(stormed) {
			t.Errorf("%d of %d controllers run", began, len(stormed))
		}
		shared.Start(ctx.Done())
		time.Sleep(time.Hour) // of the bubble
		synctest.Wait()
		before := len(client.Actions())
		for i := range 500_000 {
			next := *pod
			next.ResourceVersion, next.Annotations = strconv.Itoa(1000+i), map[string]string{"beat": strconv.Itoa(i)}
			storm.Modify(&next)
			if i%5000 == 0 {
				synctest.Wait() // what waits for slow handlers is memory of this test
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		var calls []string
		for _, a := range client.Actions()[before:] {
			calls = append(calls, fmt.Sprintf("%s %s %s", a.GetVerb(), a.GetResource().Resource, a.GetSubresource()))
		}
		if len(calls) > 0 {
			t.Errorf("%d calls: %q", len(calls), calls[:min(len(calls), 20)])
		}
		latest, err := shared.Core().V1().Pods().Lister().Pods("default").Get(pod.Name)
		if err != nil || latest.Annotations["beat"] != "499999" {
			t.Errorf("the last change is not in the cache: %v, %v", latest, err)
		}
		cancel()
		running.Wait()
		shared.Shutdown()
	})
}
