package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// worker creates a pod that asks for CPU.
func (e *env) worker(t *testing.T, name, cpu, class string, labels map[string]string, gates ...string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			PriorityClassName:             class,
			TerminationGracePeriodSeconds: new(int64), // nobody would end them
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}}},
		},
	}
	for _, gate := range gates {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: gate})
	}
	if _, err := e.client.CoreV1().Pods("default").Create(bound(t), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (e *env) nodeOf(t *testing.T, name string) string {
	t.Helper()
	pod, err := e.client.CoreV1().Pods("default").Get(bound(t), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod.Spec.NodeName
}

const gangConfig = `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
plugins:
  directories: [DIR]
  bundles:
  - name: modern
  - name: gang
    config: {Gang: {timeout: 2s}}
scheduler:
  podInitialBackoff: 50ms
  podMaxBackoff: 500ms
  profiles:
  - schedulerName: default-scheduler
    preEnqueue: [SchedulingGates]
    queueSort: GangSort
    predicates: [NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit, PodTopologySpread, InterPodAffinity]
    postFilter: [DefaultPreemption]
    priorities: [{name: NodeResourcesFitScore}]
    permit: [Gang]
`

// TestGang: of a group all members run or none; a group that cannot run holds
// nothing for longer than its time-out, and runs when there is room. Preemption by
// DefaultPreemption, with a disruption budget, and scheduling gates in the same
// kernel, all in WebAssembly.
func TestGang(t *testing.T) {
	t.Parallel()
	own := filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")
	file := write(t, filepath.Join(t.TempDir(), "pintle.yaml"), strings.ReplaceAll(gangConfig, "DIR", own))
	e := minimal(t, file, filepath.Join(t.TempDir(), "data"))
	e.placer(t) // two nodes of four CPUs
	gang := func(name string) map[string]string {
		return map[string]string{"example.com/gang": name, "example.com/gang-min-member": "3"}
	}
	// Three of two CPUs each run together, beside nobody.
	for i := range 3 {
		e.worker(t, fmt.Sprint("first-", i), "2", "", gang("first"))
	}
	for i := range 3 {
		e.placed(t, fmt.Sprint("first-", i))
	}
	// A second group of three finds room for one: nobody of it stays.
	for i := range 3 {
		e.worker(t, fmt.Sprint("second-", i), "2", "", gang("second"))
	}
	e.refused(t, "second-0", "gang second: 1 of 3 members have a node after 2s")
	e.worker(t, "beside", "2", "", nil) // what it held is free
	e.placed(t, "beside")
	for i := range 3 {
		if node := e.nodeOf(t, fmt.Sprint("second-", i)); node != "" {
			t.Errorf("second-%d runs on %s alone", i, node)
		}
	}
	for i := range 3 {
		if err := e.client.CoreV1().Pods("default").Delete(bound(t), fmt.Sprint("first-", i), *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		e.placed(t, fmt.Sprint("second-", i))
	}

	// The nodes are full. A pod with a priority evicts somebody outside of the budget.
	if _, err := e.client.SchedulingV1().PriorityClasses().Create(bound(t), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	none := intstr.FromInt32(0)
	if _, err := e.client.PolicyV1().PodDisruptionBudgets("default").Create(bound(t), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/gang": "second"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.worker(t, "gated", "1", "urgent", nil, "example.com/quota")
	e.worker(t, "urgent", "2", "urgent", nil)
	e.placed(t, "urgent")
	if _, err := e.client.CoreV1().Pods("default").Get(bound(t), "beside", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("beside was to go: %v", err)
	}
	for i := range 3 {
		if e.nodeOf(t, fmt.Sprint("second-", i)) == "" {
			t.Errorf("second-%d is gone", i)
		}
	}
	if node := e.nodeOf(t, "gated"); node != "" {
		t.Errorf("the gated pod is on %s", node)
	}
	e.worker(t, "modest", "2", "", nil)
	e.refused(t, "modest", "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.")
	gatedPod, err := e.client.CoreV1().Pods("default").Get(bound(t), "gated", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gatedPod.Spec.SchedulingGates = nil
	if _, err := e.client.CoreV1().Pods("default").Update(bound(t), gatedPod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.placed(t, "gated") // it evicts one of the second group, as there is nobody else
}
