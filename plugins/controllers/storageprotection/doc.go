// Package storageprotection holds the controllers that take away the finalizers of
// the admission plugin StorageObjectInUseProtection when the object is no longer in
// use, and give them to objects from before that plugin:
//
//   - pvc-protection: a PersistentVolumeClaim is in use by pods that have a node and
//     name it, finished ones too. A pod's generic ephemeral volume counts until the
//     pod is only waiting for other finalizers.
//   - pv-protection: a PersistentVolume is in use while its phase is Bound.
//   - volumeattributesclass-protection: a VolumeAttributesClass is in use by claims
//     (wanted, current or on the way) and volumes that name it.
//
// A cache may lag behind: before a claim is let go, the pods of its namespace are
// listed from the API server. Claims are looked at a namespace at a time, so that one
// list decides about all that were deleted. A finalizer goes by a patch that names the
// object's uid and version: the decision was about that one.
//
// The package must not import the kernel or another controller.
package storageprotection
