// Package podtopologyspread is the predicate PodTopologySpread: a node is unfit
// where the pod would make its domain, by a constraint of the pod that says
// DoNotSchedule, have more than maxSkew pods above the domain with the fewest.
package podtopologyspread
