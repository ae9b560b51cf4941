// Command points is the bundle of plugins at points of the scheduling cycle that
// go by a pod's class alone and see nothing of the cluster, so that the kernel
// feeds it no replica: SchedulingGates and PrioritySort. It goes with the classic
// bundle; the modern one holds both of them itself, and the two are not loaded
// together.
package main
