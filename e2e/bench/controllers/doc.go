// Command controllers measures the controllers of Pintle beside kube-controller-manager:
// the same work, in turns, each on an empty store of its own while nothing of the other
// runs.
//
// # The sides
//
// Pintle is its kernel with the controllers and the scheduler of configs/standalone.yaml.
// Upstream is etcd, kube-apiserver, kube-scheduler and kube-controller-manager 1.36, built
// from their modules, with the limits of requests lifted, more workers than by default, no
// audit, and no priority and fairness. Both have node authorization and NodeRestriction.
// The nodes of both are those of one program, pintle hollow, a process of its own.
//
// # What it promises
//
// The row heartbeat is Pintle's alone, and runs when it is named: it counts nodes that the
// control plane takes for lost while they renew their Leases.
//
// The outcome is asserted before a figure is printed: so many pods are there, ready on
// nodes that exist, or gone. Beside each figure stands the processor time that servers,
// controllers and nodes used, which other work on the machine changes less than times, and
// the requests that were made, which it hardly changes. The load is
// this process: client-go with protobuf and one watch of pods.
//
// Flags choose rows and smaller sizes. The JSON is build/bench/controllers.json.
//
// It imports nothing of the kernel and must not be imported.
package main
