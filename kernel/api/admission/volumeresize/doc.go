// Package volumeresize is the admission plugin PersistentVolumeClaimResize: a
// claim grows only when it is bound and its storage class says that its volumes
// can.
package volumeresize
