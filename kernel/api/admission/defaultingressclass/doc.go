// Package defaultingressclass is the admission plugin DefaultIngressClass: an
// ingress that names no class has the default one, which is the newest of those
// whose annotation says so.
package defaultingressclass
