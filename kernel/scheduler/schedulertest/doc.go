// Package schedulertest owns what tests of the scheduler and of its parts share: plugins
// of each sort (policy.go), a GuestPolicy that serves plugins of the SDK in the test's own
// process, pods and nodes, and a source of chance that a fuzzer can steer.
//
// A GuestPolicy is fed as the plugin host feeds a guest: from a replica when it is behind. It
// counts what it is asked. Only tests may import this package.
package schedulertest
