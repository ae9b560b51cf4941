// Package fielderrors bounds how many faults of one object a refusal names.
//
// # What it owns
//
// Max, and the strategies that cut a longer list after it. k8s.io/apimachinery joins the
// faults of an object to one message in a time that grows with the square of their
// number: 10,000 containers without a name, in a body of 30 KB, took half a minute.
//
// # What it promises
//
// The first Max faults are as the kind's own strategy says them, in its order. One more
// fault says how many are left out. An object without faults stays without.
//
// Data passes: kind's strategy → Create, Update → the machinery's refusal.
//
// It must not import kernel/api. Custom resources are validated by
// k8s.io/apiextensions-apiserver, which this package does not reach.
package fielderrors
