// Package podtolerationrestriction is the admission plugin
// PodTolerationRestriction: a namespace's annotation
// scheduler.alpha.kubernetes.io/defaultTolerations is added to the tolerations of
// its pods, and scheduler.alpha.kubernetes.io/tolerationsWhitelist says which
// tolerations its pods may have. Defaults of the whole cluster, which upstream
// reads from a file, are not there.
package podtolerationrestriction
