// Package testapi is what tests of several controllers play in; nothing else imports it.
//
// API (api.go) is an API server of objects with versions for one controller, whose process
// can die before any of its writes. Objects pass from tests (Put) and from the controller's
// client into the tracker of a fake clientset, and from there into the controller's caches
// when Refresh is called.
//
// Bubble (bubble.go) is a controller that evicts pods and runs by itself, in a bubble of
// testing/synctest.
//
// It knows no controller and must not import one, nor the kernel.
package testapi
