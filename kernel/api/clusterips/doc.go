// Package clusterips keeps the records of cluster IPs: an IPAddress object for each
// address that a service has, and the ServiceCIDR objects that addresses come from.
//
// # What it owns
//
//   - Records is what allocators of services (kernel/api/resources/ipalloc) take
//     addresses by. An IPAddress is created in the store before its service is,
//     under the address as its name: two kernels on one store cannot both do it.
//   - EnsureDefault makes the ServiceCIDR "kubernetes" of the configured range.
//   - Repair compares services and records while the server runs, as
//     kube-apiserver's ipallocator-repair-controller does: it records what lacks a
//     record (clusters that are older than the records, and what was deleted by
//     hand), and removes records that no service holds, which a kernel leaves that
//     is killed while it makes or deletes a service.
//
// # How data passes through
//
// Writes go straight to the store, past admission: an IPAddress is part of its
// service's write, which was admitted. Repair hears of the objects by watches that
// keep nothing but names, in a queue, and reads the latest state of each. A
// record without a service is given a minute, on the clock of who looks and
// since it was first seen: that of the kernel that is making the service may be
// another.
//
// Ranges of a ServiceCIDR are drawn from unless it is being deleted or says that it
// is not ready. Its finalizer and condition are the service-cidr-controller's, a
// plugin.
//
// The package must not import kernel/api.
package clusterips
