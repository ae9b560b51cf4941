// Package defaultstorageclass is the admission plugin DefaultStorageClass: a
// claim that names no storage class has the default one, which is the newest of
// those whose annotation says so.
package defaultstorageclass
