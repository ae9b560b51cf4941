package program

import (
	networkingv1 "k8s.io/api/networking/v1"
)

// Budget bounds what the policies of one namespace take of a node, so that they harm no other
// namespace. Policies that select no pod of the node take nothing.
type Budget struct {
	Rules     int // of the packet filter
	Sets      int // that rules look addresses up in
	Elements  int // of these sets: addresses, ranges, sockets
	Selectors int // of peers, each once: the work that a change of a pod makes
}

// DefaultBudget is far beyond what people write by hand. All of it is some 25 MiB of memory.
var DefaultBudget = Budget{Rules: 10_000, Sets: 1_000, Elements: 100_000, Selectors: 2_000}

// workFactor is how many times the rules of its budget a namespace may have built, those of
// policies that then do not fit among them.
const workFactor = 4

// NotKept is the annotation of a policy of which more would be kept than its namespace may
// have kept. Its rules are not there.
const NotKept = "networkpolicy.pintle.dev/not-kept"

// Limit is what of a budget did not suffice.
type Limit string

// The limits.
const (
	Rules     Limit = "rules"
	Sets      Limit = "sets"
	Elements  Limit = "elements"
	Selectors Limit = "selectors"
	Memory    Limit = "bytes"
)

// Beyond is a policy that does not fit into the budget of its namespace. It isolates the pods
// that it selects, and allows no connection.
type Beyond struct {
	Policy *networkingv1.NetworkPolicy
	Limit  Limit
}
