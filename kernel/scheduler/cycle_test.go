package scheduler

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// Classes are bounded by what their shapes take, too: pods with thousands of
// constraints make room for each other, ordinary ones do not.
func TestLargeShapesMakeRoom(t *testing.T) {
	s := &Scheduler{cfg: Config{MaxClasses: 128}, snapshot: snapshot.NewSnapshot(), shapes: map[[32]byte]*shape{}}
	var first *shape
	for i := range 40 {
		sh, err := newShape(schedulertest.MakePod("p", 1, func(p *v1.Pod) {
			p.Labels = map[string]string{"k": fmt.Sprint(i, strings.Repeat("x", maxClassBytes/10))}
		}))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = sh
		}
		if s.classOf(sh) != s.classOf(sh) {
			t.Fatal("another class for the same shape")
		}
		held := 0
		for _, c := range s.cached {
			held += c.Size
		}
		if held != s.classBytes || held > maxClassBytes {
			t.Fatalf("%d classes of %d bytes, counted as %d", len(s.cached), held, s.classBytes)
		}
	}
	if first.class != nil || len(s.cached) != 9 {
		t.Errorf("%d classes, the first is kept: %v", len(s.cached), first.class != nil)
	}
	for i := range 200 {
		sh, err := newShape(schedulertest.MakePod("p", int64(i)))
		if err != nil {
			t.Fatal(err)
		}
		s.classOf(sh)
	}
	if len(s.cached) != 128 {
		t.Errorf("%d classes of ordinary pods, want 128", len(s.cached))
	}
}
