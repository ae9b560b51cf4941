package e2e

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// TestKernelKilledInAStorm kills the kernel, and ends it in order, while the runtime
// makes and removes many sandboxes at once: whatever was cut short is made good or
// cleared away, and the stop, which looks for it, leaves no process, rule, mount or
// cgroup behind (CRI-3, KLT-1).
func TestKernelKilledInAStorm(t *testing.T) {
	t.Parallel()
	start := crashable(t, cluster.Options{Name: "storm", Config: "configs/standalone.yaml"})
	e := start()
	const ns, app, replicas = "default", "storm", 12
	e.awaitAccount(t, ns)
	e.apply(t, ns, deployment(app, box, replicas))
	var all []string // UIDs of pods that were deleted
	for round := range 3 {
		e.rolledOut(t, ns, app)
		before := e.lives(t, ns, app)
		for _, l := range before {
			all = append(all, string(l.uid))
		}
		if err := e.client.CoreV1().Pods(ns).DeleteCollection(bound(t), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=" + app}); err != nil {
			t.Fatal(err)
		}
		// Some are gone, and some of those in their place are being made.
		eventually(t, func(context.Context) error {
			now := e.lives(t, ns, app)
			gone := 0
			for name := range before {
				if _, there := now[name]; !there {
					gone++
				}
			}
			if gone == 0 {
				return fmt.Errorf("no pod of %d has gone", len(before))
			}
			return nil
		})
		if round == 2 {
			break // the stop at the end of the test is in the middle of it
		}
		e.Kill()
		e = start()
		eventually(t, func(context.Context) error {
			if left := cluster.Cgroups(all); len(left) > 0 {
				return fmt.Errorf("cgroups of pods that are gone: %q", left)
			}
			return nil
		})
	}
}
