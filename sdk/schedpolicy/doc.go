// Package schedpolicy says how the operating system shares its processors with
// this process.
//
// A kernel under load has many short runs of many threads, and clients and
// plugins beside it on the same processors. By default each wake-up may
// preempt whoever runs, which costs a switch and a cold cache; as SCHED_BATCH
// (sched(7)) a thread waits for the end of the other's slice. Durable creates
// went from 2,200 to 2,450 a second with the kernel alone in batch, and to
// 2,950 with its clients too (kernel/rationale/138-cost-of-a-create.md).
//
// Children inherit the policy. Whatever starts programs of others, as a
// container runtime does, calls Normal first.
//
// It imports nothing of this project.
package schedpolicy
