// Package nodeselector says which nodes a pod's nodeSelector and node affinity
// select, as Kubernetes 1.36 reads them: a term that holds an expression which is
// none (an operator without its values, a number that is none, a label that cannot
// be one) selects no node, and the other terms still count. NodeAffinity,
// PodTopologySpread and what else honours a pod's node affinity share it.
package nodeselector
