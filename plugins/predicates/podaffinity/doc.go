// Package podaffinity reads the terms of affinities between pods, as kube-scheduler
// 1.36 does, and keeps sums by the domains of their topology keys.
// InterPodAffinity and InterPodAffinityScore share it.
package podaffinity
