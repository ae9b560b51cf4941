package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// parallelWrites bounds the writes of pods that one sync has under way.
const parallelWrites = 64

// each calls fn for 0 to n-1, several at once, and returns when all returned.
func each(n int, fn func(i int)) {
	var wg sync.WaitGroup
	free := make(chan struct{}, parallelWrites)
	for i := range n {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			fn(i)
		})
	}
	wg.Wait()
}

// createPod makes a pod of the template. An error has an event already, but
// where the namespace is being deleted.
func (c *jobController) createPod(ctx context.Context, job *batchv1.Job, t *corev1.PodTemplateSpec, generateName string) error {
	if len(t.Labels) == 0 {
		return errors.New("unable to create pods, no labels")
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: generateName, Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, jobKind)},
		},
		Spec: t.Spec,
	}
	made, err := c.client.CoreV1().Pods(job.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return err
	}
	if err != nil {
		c.Recorder.Eventf(job, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			// A quota, or a template that is refused: its author reads of it in
			// the event.
			return queue.Quiet(err)
		}
		return err
	}
	c.versions.wrote(job.UID, podsResource, made.ResourceVersion)
	c.Recorder.Eventf(job, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", made.Name)
	return nil
}

// namePrefix adds the dash only if the result is a name of pods.
func namePrefix(name string) string {
	if prefix := name + "-"; len(validation.NameIsDNSSubdomain(prefix, true)) == 0 {
		return prefix
	}
	return name
}

// deletePod deletes a pod of the Job; one that is gone is deleted.
func (c *jobController) deletePod(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) error {
	err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	switch {
	case err == nil:
		c.Recorder.Eventf(job, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", pod.Name)
		return nil
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err): // gone, or another of this name
		c.expect.deleted(job.UID, pod.UID)
		return nil
	}
	c.expect.deleted(job.UID, pod.UID)
	c.Recorder.Eventf(job, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
	return fmt.Errorf("unable to delete pods: %w", err)
}

// freePod takes the tracking finalizer off, for the Job of the UID or, if that
// is empty, for none.
func (c *jobController) freePod(ctx context.Context, job types.UID, pod *corev1.Pod) error {
	if !isTracked(pod) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		// A pod that took the name meanwhile has another UID and is left alone.
		"uid":                                 pod.UID,
		"$deleteFromPrimitiveList/finalizers": []string{batchv1.JobTrackingFinalizer},
	}})
	if err != nil {
		return err
	}
	return c.patchPod(ctx, job, pod.Namespace, pod.Name, patch)
}

func (c *jobController) patchPod(ctx context.Context, job types.UID, namespace, name string, patch []byte) error {
	pod, err := c.client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err == nil && job != "" {
		c.versions.wrote(job, podsResource, pod.ResourceVersion)
	}
	return err
}

// updateStatus writes the status and returns the Job as it is stored.
func (c *jobController) updateStatus(ctx context.Context, job *batchv1.Job) (*batchv1.Job, error) {
	updated, err := c.client.BatchV1().Jobs(job.Namespace).UpdateStatus(ctx, job, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	c.versions.wrote(job.UID, jobsResource, updated.ResourceVersion)
	if updated.Status.UncountedTerminatedPods == nil {
		updated.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	return updated, nil
}
