// Package nodevolumelimits is the predicate NodeVolumeLimits: a node is unfit when
// the pod's CSI volumes are more than its driver takes there beside those that are
// used or attached (CSINode's allocatable count, KEP-554). In-tree disks that a CSI
// driver has taken over count as its volumes; the host translates them.
package nodevolumelimits
