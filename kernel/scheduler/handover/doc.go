// Package handover owns the right to a state that one goroutine holds at a time. The owner
// can leave the state to another goroutine while it waits for something slow, and get it
// back.
//
// The state itself belongs to the caller. Channels carry the right, so each owner sees the
// writes of the previous one. The package imports nothing of the kernel.
package handover
