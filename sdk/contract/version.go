// Package contract is the version of the contract between the kernel and its
// plugins: which versions there are, what each added, and how both sides agree.
// The messages are in contract/v1 whatever the version: the protobuf package is
// additive, and a version says which part of it a side knows.
//
// It imports nothing, so that it is part of WASM modules too.
package contract

// The versions. A plugin speaks the oldest that has all it provides, so that
// kernels of that age run it.
const (
	// One has predicates, priorities, controllers, runtimes and proxies.
	One = 1
	// Two adds the other points of the scheduling cycle (cycle.proto) and
	// admission (admission.proto).
	Two = 2
	// Three adds to what plugins see pods' affinity and spread, volumes' objects
	// and disruption budgets, and to what they say which refusals no eviction can
	// help and scores up to 100.
	Three = 3
	// Four adds answers that end with time: Expires of predicates and priorities.
	Four = 4
	// Five adds API servers (apiserver.proto).
	Five = 5
	// Six adds cloud providers, which are started as controllers are (controller.proto).
	Six = 6
	// Seven adds networks, and what they say to runtimes (network.proto).
	Seven = 7

	// Min and Max are what this version of Pintle speaks.
	Min = One
	Max = Seven
)

// Of is the oldest version that has a kind of plugin.
func Of(kind string) uint32 {
	switch kind {
	case "predicate", "priority", "controller", "runtime", "proxy":
		return One
	case "apiserver":
		return Five
	case "cloud":
		return Six
	case "network":
		return Seven
	}
	return Two
}

// Choose is the version that a plugin which needs one speaks with a kernel that
// speaks oldest to newest; 0 for both is a kernel that knew One alone. A plugin
// that is too new for the kernel says what it needs, and the kernel refuses it.
func Choose(needs, oldest, newest uint32) uint32 {
	if newest == 0 {
		return needs
	}
	if needs < oldest && oldest <= Max {
		return oldest
	}
	return needs
}
