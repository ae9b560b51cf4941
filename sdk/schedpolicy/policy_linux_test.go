package schedpolicy

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPolicies: every thread changes, and changes back.
func TestPolicies(t *testing.T) {
	if attr, err := unix.SchedGetAttr(0, 0); err != nil || attr.Policy != unix.SCHED_NORMAL {
		t.Skipf("this process is not scheduled normally: %+v, %v", attr, err)
	}
	for _, step := range []struct {
		do   func() error
		want uint32
	}{{Batch, unix.SCHED_BATCH}, {Normal, unix.SCHED_NORMAL}} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil {
				t.Fatal(err)
			}
			if attr, err := unix.SchedGetAttr(tid, 0); err == nil && attr.Policy != step.want {
				t.Errorf("thread %d has policy %d, want %d", tid, attr.Policy, step.want)
			}
		}
	}
}
