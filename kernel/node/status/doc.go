// Package status turns what the runtime tells of a pod into a PodStatus (container states, phase, conditions) and
// writes changed statuses to the API, one patch a pod at a time, and at the end deletes the pod object with grace 0.
//
// Generate is pure. Manager keeps the newest status of each pod and a few writers while there is something to write; a
// status that is overtaken before it was written is never written; a failed write is tried again. What others own is
// kept: PodScheduled and foreign conditions, nominatedNodeName, resize. It must import only kernel/node/client,
// kernel/node/container and kernel/node/cri of its siblings.
package status
