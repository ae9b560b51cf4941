// Package podtolerationrestriction is the admission plugin
// PodTolerationRestriction: a namespace's annotation
// scheduler.alpha.kubernetes.io/defaultTolerations is added to the tolerations of
// its pods, and scheduler.alpha.kubernetes.io/tolerationsWhitelist says which
// tolerations its pods may have. A configuration has both for namespaces without
// the annotations.
package podtolerationrestriction
