// Package podnodeselector is the admission plugin PodNodeSelector: a namespace's
// annotation scheduler.alpha.kubernetes.io/node-selector is added to the node
// selector of its pods, and a pod that contradicts it is refused. Defaults and
// allowed selectors of the whole cluster, which upstream reads from a file, are
// not there.
package podnodeselector
