package store

import (
	"errors"
	"fmt"
)

// ErrClosed is returned by every call after the store was stopped or closed.
var ErrClosed = errors.New("store is closed")

// ErrKeyNotFound is returned by Get when the key has no value at the revision asked for.
var ErrKeyNotFound = errors.New("key not found")

// ConflictError says that a write's expectation did not hold.
type ConflictError struct {
	Key string
	// Expected is the Write's Expect.
	Expected uint64
	// Current is the key's revision, 0 when it has no value.
	Current uint64
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("key %q is at revision %d, expected %d: read it again and retry", e.Key, e.Current, e.Expected)
}

// CompactedError says that the history asked for is gone.
type CompactedError struct {
	// Requested is the revision asked for; Compacted the one below which nothing is kept.
	Requested, Compacted uint64
}

func (e *CompactedError) Error() string {
	return fmt.Sprintf("revision %d has been compacted, the oldest kept is %d", e.Requested, e.Compacted)
}

// FutureRevisionError says that the revision asked for has not been committed yet.
type FutureRevisionError struct {
	Requested, Current uint64
}

func (e *FutureRevisionError) Error() string {
	return fmt.Sprintf("revision %d is in the future, the current one is %d", e.Requested, e.Current)
}

// LockedError says that another process has the data directory.
type LockedError struct {
	Dir string
	// PID is the holder's process id, 0 when it could not be read.
	PID int
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("data directory %s is in use by another process: stop it or choose another directory", e.Dir)
	}
	return fmt.Sprintf("data directory %s is in use by process %d: stop it or choose another directory", e.Dir, e.PID)
}

// DiskError says that a write was refused or failed because of the disk. Reads are not affected.
type DiskError struct {
	Dir string
	// ReadOnly is set when the file system is mounted read-only.
	ReadOnly bool
	// Free and Needed are the bytes there are and must be left for a write to be accepted.
	Free, Needed uint64
	// Err is what the disk or Badger said, nil when the write was refused before it was tried.
	Err error
}

func (e *DiskError) Error() string {
	switch {
	case e.ReadOnly:
		return fmt.Sprintf("data directory %s is on a read-only file system: remount it writable", e.Dir)
	case e.Err != nil:
		return fmt.Sprintf("writing to data directory %s: %v", e.Dir, e.Err)
	}
	return fmt.Sprintf("no space left for data directory %s: %d MiB free, %d MiB needed: free some or move it", e.Dir, e.Free>>20, e.Needed>>20)
}

func (e *DiskError) Unwrap() error { return e.Err }

// TooLargeError says that a value or key exceeds the store's limit.
type TooLargeError struct {
	Key         string
	Size, Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("value of key %q is too large: %d bytes, at most %d", e.Key, e.Size, e.Limit)
}
