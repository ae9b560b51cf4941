// Package storageprotection is the admission plugin StorageObjectInUseProtection: new
// claims, volumes and volume attributes classes have a finalizer, which the controllers
// pvc-protection, pv-protection and volumeattributesclass-protection take away when the
// object is deleted and no longer in use. Where those controllers do not run, deleted
// objects stay: disable the plugin there.
package storageprotection
