// Package interpodaffinity is the predicate InterPodAffinity: a node is unfit where
// its domains lack the pods that the pod's affinity requires, have pods that its
// anti-affinity refuses, or have pods whose anti-affinity refuses it.
package interpodaffinity
