//go:build !linux

package schedpolicy

// Batch does nothing: the policy is Linux's.
func Batch() error { return nil }

// Normal does nothing.
func Normal() error { return nil }
