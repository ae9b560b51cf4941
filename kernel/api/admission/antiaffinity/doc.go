// Package antiaffinity is the admission plugin LimitPodHardAntiAffinityTopology:
// a pod that insists on keeping others away may do so from its own node only.
package antiaffinity
