// Package priority is the admission plugin Priority: it resolves the name of a
// pod's priority class into spec.priority and spec.preemptionPolicy, refuses
// unknown classes, and keeps a second class from becoming the global default.
package priority
