// Command gang is a bundle that shows how several points of the scheduling cycle
// work together: of a group of pods either as many as its minMember are bound or
// none. GangSort keeps the pods of a group together in the queue, Gang makes each
// wait on its node until enough of them have one, and gives all of them up when
// that takes too long.
//
// A pod is in a group by the labels example.com/gang, the group's name in the pod's
// namespace, and example.com/gang-min-member.
package main
