package node

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri/critest"
)

func resources(cpu, memory string) corev1.ResourceRequirements {
	l := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.ResourceRequirements{Requests: l, Limits: l.DeepCopy()}
}

// resize changes the resources of a pod's container as the API's subresource does.
func (w *world) resize(name string, r corev1.ResourceRequirements) {
	w.t.Helper()
	p := w.get(name)
	p.Spec.Containers[0].Resources = r
	p.Generation++
	if _, err := w.client.CoreV1().Pods("default").Update(w.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func conditionOf(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// TestResize: KEP-1287: a container gets its new resources while it runs; what the node has no room for waits, and what
// the runtime refuses is told; a policy of RestartContainer makes the container anew.
func TestResize(t *testing.T) {
	w := newWorld(t, func(cfg *Config) {
		cfg.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	})
	w.create(newPod("p", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = resources("500m", "100Mi")
		p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{
			{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired}, {ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	}))
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
	id := w.runtime.Find("p", "main").ID
	quota := func() int64 {
		w.runtime.Lock()
		defer w.runtime.Unlock()
		return w.runtime.Containers[id].Status.Resources.Linux.CpuQuota
	}
	settled := func(r corev1.ResourceRequirements) func() bool {
		return func() bool {
			p := w.get("p")
			s := p.Status.ContainerStatuses[0]
			return s.Resources != nil && s.Resources.Limits.Cpu().Equal(*r.Limits.Cpu()) && s.Resources.Limits.Memory().Equal(*r.Limits.Memory()) &&
				s.AllocatedResources.Cpu().Equal(*r.Requests.Cpu()) && conditionOf(p, corev1.PodResizePending) == nil && conditionOf(p, corev1.PodResizeInProgress) == nil
		}
	}
	if quota() != 50000 {
		t.Fatalf("quota %d", quota())
	}

	w.resize("p", resources("1", "100Mi"))
	w.eventually("more CPU", settled(resources("1", "100Mi")))
	if quota() != 100000 || w.runtime.Find("p", "main").ID != id {
		t.Errorf("quota %d, container %s, was %s", quota(), w.runtime.Find("p", "main").ID, id)
	}
	w.eventually("started", func() bool {
		return w.hasEvent(`Normal p ResizeStarted: Pod resize started: {"containers":[{"name":"main"`)
	})
	w.eventually("completed", func() bool { return w.hasEvent("Normal p ResizeCompleted: Pod resize completed: ") })

	// The node has two CPUs.
	w.resize("p", resources("3", "100Mi"))
	w.eventually("infeasible", func() bool {
		c := conditionOf(w.get("p"), corev1.PodResizePending)
		return c != nil && c.Reason == corev1.PodReasonInfeasible && c.Message == "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000" && c.ObservedGeneration == 3
	})
	w.eventually("infeasible event", func() bool { return w.hasEvent("Warning p ResizeInfeasible: Pod resize Infeasible: ") })
	w.create(newPod("other", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = resources("500m", "100Mi") }))
	w.eventually("other runs", func() bool { return w.phase("other") == corev1.PodRunning })
	w.resize("p", resources("1800m", "100Mi"))
	w.eventually("deferred", func() bool {
		c := conditionOf(w.get("p"), corev1.PodResizePending)
		return c != nil && c.Reason == corev1.PodReasonDeferred && strings.HasPrefix(c.Message, "Node didn't have enough resource: cpu, requested: 1800, ") && c.ObservedGeneration == 4
	})
	if s := w.get("p").Status.ContainerStatuses[0]; quota() != 100000 || !s.AllocatedResources.Cpu().Equal(resource.MustParse("1")) {
		t.Errorf("deferred: quota %d, %+v", quota(), s)
	}
	// Another agent finds the same: what was granted is in the status.
	w.stop()
	w.start()
	w.eventually("deferred event of the second agent", func() bool { return w.hasEvent("Warning p ResizeDeferred: Pod resize Deferred: ") })
	if quota() != 100000 {
		t.Errorf("the second agent set the quota to %d", quota())
	}

	w.runtime.Lock()
	w.runtime.OnUpdate = func(_ *critest.Container, r *runtimeapi.LinuxContainerResources) error { return errors.New("no way") }
	w.runtime.Unlock()
	w.resize("p", resources("200m", "100Mi"))
	w.eventually("refused by the runtime", func() bool {
		p := w.get("p")
		c := conditionOf(p, corev1.PodResizeInProgress)
		return c != nil && c.Reason == corev1.PodReasonError && strings.Contains(c.Message, "no way") && conditionOf(p, corev1.PodResizePending) == nil &&
			p.Status.ContainerStatuses[0].Resources.Limits.Cpu().Equal(resource.MustParse("1"))
	})
	w.runtime.Lock()
	w.runtime.OnUpdate = nil
	w.runtime.Unlock()
	w.resize("p", resources("250m", "100Mi"))
	w.eventually("less CPU", settled(resources("250m", "100Mi")))

	w.resize("p", resources("250m", "200Mi"))
	w.eventually("restarted with more memory", func() bool {
		return settled(resources("250m", "200Mi"))() && w.get("p").Status.ContainerStatuses[0].RestartCount == 1
	})
	w.eventually("killing event", func() bool { return w.hasEvent("Killing: Container main resize requires restart") })
	types := []corev1.PodConditionType{}
	for _, c := range w.get("p").Status.Conditions {
		types = append(types, c.Type)
	}
	want := []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled}
	if !slices.Equal(types, want) {
		t.Errorf("conditions %v, want the kubelet's order %v", types, want)
	}
}
