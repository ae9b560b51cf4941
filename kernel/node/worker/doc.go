// Package worker runs one piece of work a pod at a time: a goroutine exists for a pod only while it is being worked
// on; what arrives meanwhile is folded into one more round (KLT-31, KLT-37).
//
// The Pool owns its goroutines and timers; Close ends them and waits. It knows no pods, only their UIDs, and must not
// import other packages of kernel/node.
package worker
