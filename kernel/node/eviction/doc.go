// Package eviction measures what is left of the machine (memory, file systems, process ids), says which pressures the
// node has, and ends pods before its disks are full.
//
// # What it owns
//
// The signals and their thresholds (evictionHard), the pressures of the last measurement, and the choice of the pod that
// goes. It ends no pod itself and removes no file: Deps do. Pods are evicted for disks alone; memory is held by the limit
// of the cgroup of all pods, so that its pressure is told and keeps pods away, but evicts nobody.
//
// # How data passes through
//
//	machine ──Measure──▶ Round ──pressures──▶ nodestatus (conditions, and from them taints)
//	                       │ disk: first what nobody uses (dead containers, images),
//	                       └──▶ then the largest writer of local storage ──Evict──▶ pod
//
// Nothing of this asks the API, which refuses writes when the disk is full.
//
// It must not import siblings but kernel/node/localstorage.
package eviction
