package node

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
)

// TestTearDownWaitsForRuntime: a runtime whose daemon has just ended is given time to come back, so that a stop leaves
// nothing (CRI-3).
func TestTearDownWaitsForRuntime(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newPod("p", nil))
	w.eventually("running", func() bool { return w.phase("p") == corev1.PodRunning })
	w.stop()
	refusals := 0
	w.runtime.Lock()
	w.runtime.OnList = func() error {
		if refusals++; refusals <= 3 {
			return status.Error(codes.Unavailable, "connection refused")
		}
		return nil
	}
	w.runtime.Unlock()
	if err := w.agent.TearDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.runtime.Lock()
	defer w.runtime.Unlock()
	if refusals < 4 || len(w.runtime.Sandboxes) != 0 || len(w.runtime.Containers) != 0 {
		t.Errorf("after %d questions there are %d sandboxes and %d containers", refusals, len(w.runtime.Sandboxes), len(w.runtime.Containers))
	}
}
