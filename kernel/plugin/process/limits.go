package process

import (
	"time"
)

// Ceilings are limits in numbers; 0 is none.
type Ceilings struct {
	Memory, MilliCPU int64
	Calls, PIDs      int
}

// any reports whether there is one that a cgroup holds.
func (c Ceilings) any() bool { return c.Memory > 0 || c.MilliCPU > 0 || c.PIDs > 0 }

// Lower is the lower one of what is granted and what is asked for; 0 is no limit.
func Lower[T int | int64 | time.Duration](granted, asked T) T {
	if asked <= 0 || granted > 0 && granted < asked {
		return granted
	}
	return asked
}
