// Package volumebindingprebind is the pre-bind plugin VolumeBindingPreBind: it
// writes what VolumeBindingReserve has planned for a pod's claims (the claim into
// spec.claimRef of a volume that is there, the node into the annotation
// volume.kubernetes.io/selected-node of a claim whose volume is to be made) and
// waits until the claims are bound. Who binds and makes volumes is another: the
// controller of persistent volumes, or a provisioner.
//
// It is the one part of VolumeBinding that writes, so it runs as a process with an
// identity of its own, whose rights its manifest names: to read pods and CSINodes,
// and to read and update claims and volumes.
package volumebindingprebind
