package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLoopsHoldUpTheirProfileAlone: a plugin that loops in each question, from the
// first one on, keeps no pod of another profile waiting. How long those waited is logged.
func TestLoopsHoldUpTheirProfileAlone(t *testing.T) {
	t.Parallel()
	own := filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")
	file := write(t, filepath.Join(t.TempDir(), "pintle.yaml"), fmt.Sprintf(`apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
plugins:
  directories: [%s, %s]
  callTimeout: 40s
  bundles: [{name: classic}, {name: loops}]
scheduler:
  podInitialBackoff: 50ms
  podMaxBackoff: 200ms
  profiles:
  - {schedulerName: default-scheduler, predicates: [HostName, PodFitsResources]}
  - {schedulerName: loops, predicates: [HostName, Loops]}
`, own, hostileCatalog(t)))
	e := minimal(t, file, filepath.Join(t.TempDir(), "data"))
	e.placer(t)
	e.ask(t, "before", "default-scheduler")
	e.placed(t, "before")
	bound := make(chan map[string]time.Time, 1)
	const pods = 100
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the first question has not ended then
	defer cancel()
	watching, err := e.client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer watching.Stop()
		at := map[string]time.Time{}
		for event := range watching.ResultChan() {
			if p, ok := event.Object.(*corev1.Pod); ok && p.Spec.NodeName != "" && p.Spec.SchedulerName == "default-scheduler" && at[p.Name].IsZero() {
				if at[p.Name] = time.Now(); len(at) == pods+1 {
					break
				}
			}
		}
		bound <- at
	}()
	asked := map[string]time.Time{}
	for i := range pods {
		if i%10 == 0 {
			e.ask(t, fmt.Sprint("loops-", i), "loops")
		}
		name := fmt.Sprint("sound-", i)
		asked[name] = time.Now()
		e.ask(t, name, "default-scheduler")
	}
	at := <-bound
	var waits []time.Duration
	for name, began := range asked {
		if at[name].IsZero() {
			t.Errorf("%s is not bound", name)
		}
		waits = append(waits, at[name].Sub(began))
	}
	slices.Sort(waits)
	t.Logf("pods of the other profile waited %s in the median, %s at the 99th, %s at most", waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1])
	p, err := e.client.CoreV1().Pods("default").Get(t.Context(), "loops-0", metav1.GetOptions{})
	if err != nil || p.Spec.NodeName != "" {
		t.Errorf("a pod is on %q past a predicate that loops, %v", p.Spec.NodeName, err)
	}
}
