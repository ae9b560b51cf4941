// Package schedulertest owns what tests of the scheduler and of its parts share. It has
// plugins of each kind (policy.go), and a GuestPolicy that serves plugins of the SDK in the
// process of the test. It also has pods, nodes, and a random source that a fuzzer can steer.
//
// A GuestPolicy gets its state as a guest of the plugin host does: from a replica when it is
// behind. It counts its calls. Only tests may import this package.
package schedulertest
