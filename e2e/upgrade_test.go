package e2e

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// began is when each container of an app's pods was started, by pod and container id.
func (e *env) began(t *testing.T, namespace, app string) map[string]time.Time {
	t.Helper()
	list, err := e.client.CoreV1().Pods(namespace).List(bound(t), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]time.Time{}
	for _, p := range list.Items {
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running == nil {
				t.Fatalf("container %s of pod %s does not run: %+v", c.Name, p.Name, c.State)
			}
			all[p.Name+" "+c.ContainerID] = c.State.Running.StartedAt.Time.UTC()
		}
	}
	return all
}

// TestUpgradeRestartsNoContainer: with node.onStop=keep a stop in order leaves
// pods running, and the next kernel takes them over: the same containers, begun
// when they were, ready as they were. With stop the one after leaves nothing.
func TestUpgradeRestartsNoContainer(t *testing.T) {
	t.Parallel()
	start := crashable(t, cluster.Options{Name: "upgrade", Config: "configs/standalone.yaml"})
	e := start("node.onStop=keep")
	const ns = "default"
	e.awaitAccount(t, ns)
	e.apply(t, ns, deployment("web", box, 2)+service("web", "web"))
	e.rolledOut(t, ns, "web")
	e.answers(t, ns, "web", "web")
	lives, began := e.lives(t, ns, "web"), e.began(t, ns, "web")
	for range 2 {
		if err := e.Leave(); err != nil {
			t.Fatal(err)
		}
		e = start("node.onStop=keep")
		e.nodeIs(t, corev1.ConditionTrue, "")
		e.rolledOut(t, ns, "web")
		e.answers(t, ns, "web", "web")
		if now := e.lives(t, ns, "web"); !maps.Equal(now, lives) {
			t.Fatalf("pods after the stop: %v, before %v", now, lives)
		}
		if now := e.began(t, ns, "web"); !maps.Equal(now, began) {
			t.Fatalf("containers after the stop: %v, before %v", now, began)
		}
	}
	if err := e.Leave(); err != nil {
		t.Fatal(err)
	}
	start("node.onStop=stop") // its stop, at the end of the test, looks for what is left
}
