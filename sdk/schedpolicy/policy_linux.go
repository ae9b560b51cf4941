package schedpolicy

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Batch makes every thread of this process one that does not preempt others
// when it is woken. It needs no rights.
func Batch() error { return set(unix.SCHED_BATCH) }

// Normal undoes Batch, inherited or not.
func Normal() error { return set(unix.SCHED_NORMAL) }

// set changes the threads there are; those to come inherit it from the one
// that makes them, so that a second look catches what came meanwhile.
func set(policy uint32) error {
	for range 2 {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				continue
			}
			attr, err := unix.SchedGetAttr(tid, 0)
			if errors.Is(err, unix.ESRCH) {
				continue
			}
			if err != nil {
				return fmt.Errorf("read scheduling policy of thread %d: %w", tid, err)
			}
			// Real-time policies are somebody's decision.
			if attr.Policy != unix.SCHED_NORMAL && attr.Policy != unix.SCHED_BATCH || attr.Policy == policy {
				continue
			}
			attr.Policy = policy
			if err := unix.SchedSetAttr(tid, attr, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("set scheduling policy of thread %d: %w", tid, err)
			}
		}
	}
	return nil
}
