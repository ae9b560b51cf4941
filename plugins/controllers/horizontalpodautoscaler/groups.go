package horizontalpodautoscaler

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelpers "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// podGroups are pods by what their samples are worth.
type podGroups struct {
	ready            int
	unready, missing map[string]struct{} // not ready; ready, as far as is known, without a sample
}

// group sorts pods and takes the samples away that do not count: of pods that end, and
// of those that are not ready.
func (c *calculator) group(pods []*corev1.Pod, samples map[string]sample, name corev1.ResourceName) podGroups {
	g := podGroups{unready: map[string]struct{}{}, missing: map[string]struct{}{}}
	for _, p := range pods {
		of, has := samples[p.Name]
		switch {
		case p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed:
			delete(samples, p.Name)
		case p.Status.Phase == corev1.PodPending:
			g.unready[p.Name] = struct{}{}
			delete(samples, p.Name)
		case !has:
			g.missing[p.Name] = struct{}{}
		case name == corev1.ResourceCPU && c.starting(p, of):
			g.unready[p.Name] = struct{}{}
			delete(samples, p.Name)
		default:
			g.ready++
		}
	}
	return g
}

// starting says whether the CPU that a pod uses is that of its start, which passes.
func (c *calculator) starting(p *corev1.Pod, of sample) bool {
	ready, began := readiness(p), p.Status.StartTime
	if ready == nil || began == nil {
		return true
	}
	not := ready.Status == corev1.ConditionFalse
	if began.Add(c.initialization).After(time.Now()) {
		// A sample has to be of a whole window since the pod became ready.
		return not || of.at.Before(ready.LastTransitionTime.Add(of.window))
	}
	// It never was ready.
	return not && began.Add(c.readinessDelay).After(ready.LastTransitionTime.Time)
}

func readiness(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c
		}
	}
	return nil
}

// requestsOf are what pods request of a resource by name, in thousandths: a container of
// theirs, if one is named, else the pod where it says so itself, else its containers
// together.
func requestsOf(pods []*corev1.Pod, container string, name corev1.ResourceName) (map[string]int64, error) {
	requests := make(map[string]int64, len(pods))
	for _, p := range pods {
		if container == "" && resourcehelpers.IsPodLevelRequestsSet(p) {
			request, ok := resourcehelpers.PodRequests(p, resourcehelpers.PodResourcesOptions{})[name]
			if !ok {
				return nil, fmt.Errorf("missing pod-level request for %s in Pod %s", name, p.Name)
			}
			requests[p.Name] = thousandths(request)
			continue
		}
		sum, err := requestOfContainers(p, container, name)
		if err != nil {
			return nil, err
		}
		requests[p.Name] = sum
	}
	return requests, nil
}

func requestOfContainers(p *corev1.Pod, container string, name corev1.ResourceName) (sum int64, err error) {
	look := func(c *corev1.Container) (done bool, err error) {
		if container != "" && container != c.Name {
			return false, nil
		}
		request, ok := c.Resources.Requests[name]
		if !ok {
			return false, fmt.Errorf("missing request for %s in container %s of Pod %s", name, c.Name, p.Name)
		}
		sum = addClamped(sum, thousandths(request))
		return container != "", nil
	}
	for i := range p.Spec.Containers {
		if done, err := look(&p.Spec.Containers[i]); done || err != nil {
			return sum, err
		}
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if ptr.Deref(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
			continue
		}
		if done, err := look(c); done || err != nil {
			return sum, err
		}
	}
	if container != "" {
		return 0, fmt.Errorf("container %s not found in Pod %s", container, p.Name)
	}
	return sum, nil
}
