// Package handover has a state owned by one goroutine at a time, which can leave it to
// another while it waits for something slow, and have it back.
//
// It owns who owns; the state is its caller's. Data passes through by channels, so that
// what one owner wrote is seen by the next. It imports nothing of the kernel.
package handover
