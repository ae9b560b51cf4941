package main

import (
	"strconv"

	"pintle.dev/pintle/sdk"
)

// The labels by which pods are members of a group.
const (
	labelGroup  = "example.com/gang"
	labelMember = "example.com/gang-min-member"
)

// group is a group of pods.
type group struct{ namespace, name string }

// groupOf is the group of a pod and how many of its members are to run at least;
// false: it is in none. A number that is none counts as one.
func groupOf(pod *sdk.Pod) (g group, members int, ok bool) {
	name := pod.Labels[labelGroup]
	if name == "" {
		return group{}, 0, false
	}
	members, err := strconv.Atoi(pod.Labels[labelMember])
	if err != nil || members < 1 {
		members = 1
	}
	return group{pod.Namespace, name}, members, true
}

// placed counts the members of a group that have a node: those that are bound and
// those that wait for the others. Pods on their way out do not count.
func (g group) placed(c *sdk.Cluster) int {
	count := 0
	for n := range c.Nodes {
		for _, pod := range n.Pods {
			if other, _, ok := groupOf(pod); ok && other == g && !pod.Terminating {
				count++
			}
		}
	}
	return count
}
