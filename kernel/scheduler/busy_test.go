package scheduler

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
)

// The scheduler is busy while pods wait to be decided about or their bindings for a
// worker, and says so when that begins and ends.
func TestBusy(t *testing.T) {
	const pods, workers = 20, 2
	var mu sync.Mutex
	var told []bool
	binds := make(chan struct{})
	c := start(t, Config{BindWorkers: workers}, func(c *cluster) {
		c.busy = func(now bool) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, now)
		}
		c.refuse = func(string) error {
			binds <- struct{}{} // until the test has looked
			return nil
		}
		c.nodes.Add(schedulertest.MakeNode("n", 100*pods, nil))
	})
	busy := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) > 0 && told[len(told)-1]
	}
	for i := range pods {
		p := schedulertest.MakePod(fmt.Sprintf("p%d", i), 100)
		c.byUID[p.UID] = p
		c.pods.Add(p)
	}
	// One binding is being written, another worker waits for it, and as many wait for a worker.
	for left := pods; left > 2*workers; left-- {
		eventually(t, "busy", busy)
		<-binds
	}
	eventually(t, "busy while bindings wait", busy)
	for range 2 * workers {
		<-binds
	}
	eventually(t, "all are bound", func() bool { return len(c.bound()) == pods })
	eventually(t, "not busy", func() bool { return !busy() })
	c.stop()
	if len(told)%2 != 0 || slices.ContainsFunc(slices.Collect(slices.Chunk(told, 2)), func(c []bool) bool { return !c[0] || c[1] }) {
		t.Errorf("told %v", told)
	}
}
