// Package podnodeselector is the admission plugin PodNodeSelector: a namespace's
// annotation scheduler.alpha.kubernetes.io/node-selector is added to the node
// selector of its pods, and a pod that contradicts it is refused. A configuration has
// the selector of namespaces without the annotation, and by namespace the labels that
// selectors may have there.
package podnodeselector
