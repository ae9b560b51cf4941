package node

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNodeSeenAsItIs: what others write to the Node is known at once: a status that is not the node's is put right, and
// a taint keeps pods away that were bound before.
func TestNodeSeenAsItIs(t *testing.T) {
	w := newWorld(t, func(cfg *Config) { cfg.StatusUpdate = time.Hour })
	nodes := w.client.CoreV1().Nodes()
	get := func() *corev1.Node {
		n, err := nodes.Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	is := func(status corev1.ConditionStatus) bool {
		for _, c := range get().Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status == status
			}
		}
		return false
	}
	w.eventually("ready", func() bool { return is(corev1.ConditionTrue) })
	tries := 0
	disturb := func() {
		tries++
		n := get()
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].Status, n.Status.Conditions[i].Message = corev1.ConditionUnknown, fmt.Sprint(tries)
		}
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
		if _, err := nodes.Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	disturb()
	w.eventually("ready again", func() bool {
		if is(corev1.ConditionTrue) {
			return true
		}
		disturb() // the API in memory does not show a watch what was written between its list and its start
		return false
	})
	w.eventually("a pod is refused because of the taint", func() bool {
		tries++
		w.create(newPod(fmt.Sprint("p", tries), nil))
		return w.hasEvent("TaintToleration")
	})
}

// TestReconfigure: what is live reaches the running agent, and a fault changes nothing.
func TestReconfigure(t *testing.T) {
	w := newWorld(t, nil)
	next := w.cfg
	none := 0
	next.ImageGCHigh, next.ImageGCLow, next.LogMaxSize, next.LogMaxFiles, next.MaxPerPodContainer = 50, 40, 1<<20, 3, &none
	if err := w.agent.Reconfigure(next); err != nil {
		t.Fatal(err)
	}
	next.LogMaxFiles = 1
	if err := w.agent.Reconfigure(next); err == nil {
		t.Error("one file of a log was taken")
	}
	// The container that ended before this one would be kept by default.
	w.create(newPod("p", nil))
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
	first := w.runtime.Find("p", "main").ID
	w.runtime.Exit(first, 1)
	w.eventually("restarted", func() bool { return w.get("p").Status.ContainerStatuses[0].RestartCount == 1 })
	if err := w.agent.parts.gc.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.runtime.Lock()
	defer w.runtime.Unlock()
	if w.runtime.Containers[first] != nil {
		t.Error("the dead container is still there")
	}
}

// TestLeastOOMScore: H5: where the runtime could not be protected, no container is more protected than it.
func TestLeastOOMScore(t *testing.T) {
	w := newWorld(t, func(cfg *Config) { cfg.LeastOOMScore = 2 })
	w.create(newPod("p", func(p *corev1.Pod) {
		all := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("10Mi")}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: all, Limits: all}
	}))
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
	if r := w.runtime.Find("p", "main").Config.Linux.Resources; r.OomScoreAdj != 2 {
		t.Errorf("score %d", r.OomScoreAdj)
	}
}
