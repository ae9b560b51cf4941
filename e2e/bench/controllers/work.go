package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// workers are the clients of this process that make objects.
const workers = 32

// template is a pod of an ordinary Deployment.
func template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
			}}},
		},
	}
}

func deployment(name string, replicas int) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name),
			ProgressDeadlineSeconds: ptr.To(int32(rowLimit / time.Second)),
		},
	}
}

// indexedJob has pods that end by themselves, as the hollow runtime lets them.
func indexedJob(name string, completions, parallelism int) *batchv1.Job {
	t := template(name)
	t.Labels = nil
	t.Annotations = map[string]string{"hollow.pintle.dev/run-for": "100ms"}
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: batchv1.JobSpec{
			Completions: ptr.To(int32(completions)), Parallelism: ptr.To(int32(min(parallelism, completions))),
			CompletionMode: ptr.To(batchv1.IndexedCompletion), Template: t,
		},
	}
}

// pause waits, or says that ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// profiled takes a profile of the kernel's processor time, of Pintle and where a folder was
// given. The function that it returns waits for it.
func (o options) profiled(s *side, name string, seconds int) func() {
	if o.profile == "" || s.name != "pintle" {
		return func() {}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		raw, err := fetch(s.cfg, "/debug/pprof/profile?seconds="+strconv.Itoa(seconds))
		if err == nil {
			err = os.MkdirAll(o.profile, 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(o.profile, name+".cpu"), raw, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "profile:", err)
		}
	})
	return wg.Wait
}

// heap writes what the heap of Pintle's kernel holds, by who made it.
func (o options) heap(s *side, name string) error {
	if o.profile == "" || s.name != "pintle" {
		return nil
	}
	raw, err := fetch(s.cfg, "/debug/pprof/heap")
	if err != nil {
		return fmt.Errorf("profile of the heap: %w", err)
	}
	if err := os.MkdirAll(o.profile, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.profile, name+".heap"), raw, 0o644)
}

func fetch(cfg *rest.Config, path string) ([]byte, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	resp, err := client.Get(cfg.Host + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", path, resp.Status)
	}
	return readAll(resp.Body)
}
