// Package program turns network policies into what a machine's packet filter is given: sets of
// addresses, and chains of rules.
//
// # What it owns
//
// The meaning of networking.k8s.io/v1 NetworkPolicy, as Kubernetes 1.36 has it: which pods
// are isolated in which direction, and who may connect to them all the same. Compile is a
// pure function of a Cluster. It promises that equal clusters give equal programs, so that
// the difference of two programs is what has to be sent (package table). A Compiler makes the
// same programs, and keeps what did not change: a pod that changes is looked at alone.
//
// A namespace has a Budget. What its policies take of a program, and the work that they are,
// is bounded by it; policies beyond are in Program.Beyond.
//
// # The shape of a program
//
// Two base chains see each forwarded packet, egress and then ingress. Each lets pass what
// belongs to a connection that was allowed, what a pod sends to itself, and what concerns no
// isolated pod. A map leads from the address of an isolated pod to the chain of all pods
// that the same policies select. That chain asks each policy's chain, and drops what none of
// them accepts. A pod of this node whose address is not known yet is isolated, as long as
// there is any policy for that direction. Then pods of one bridge reach each other by no
// address of the link and no group either: the API has none of them, so no policy names them.
//
//	forward → egress  → (address of a pod of this node) → pods-egress-H  → policy-egress-H
//	        → ingress → (address of a pod of this node) → pods-ingress-H → policy-ingress-H
//
// What a policy's peers are is a set of addresses. Peers that come to the same addresses share
// one, which has the first of their names. A pod that comes, goes or is labelled changes
// elements of sets, and rules where peers were the same and are not, or were nobody.
//
// Data passes: Cluster → Compile → Program → Changes.
//
// It must not import the kernel, and it touches no machine.
package program
