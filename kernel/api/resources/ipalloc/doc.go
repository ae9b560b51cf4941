// Package ipalloc hands out the cluster IPs and node ports of services.
//
// # Cluster IPs
//
// Each address that is taken has a record (Addresses; in the product an IPAddress
// object, as upstream). Who makes the record has the address: kernels of one store
// need not know of each other. An Allocator remembers which addresses are taken
// in a bit set a range, which only says where to look first; a range that seems
// full is read anew. Addresses come from all ranges that are ready, in their
// order: from a later one when those before are full.
//
// The network address and, in IPv4, the broadcast address are never given out;
// nor is the first address of the cluster's own range, unless asked for by name:
// it is the kubernetes service's. Dynamic allocation starts at a random place in
// the upper band of a range and falls back to the lower, which is thereby mostly
// free for addresses that users choose (upstream's KEP-3070 and KEP-3668).
//
// # Node ports
//
// They are kept in a bit set in memory. Where several kernels allocate from one
// range, Claims decide (claims.go): a number is taken when its claim is won.
// Without them the Allocator is the only one of its range.
//
// # How data passes through
//
// The Allocator reads the stored services once, before the first allocation
// (Load). From then on each write of a service goes through a Txn: what it takes
// is taken at once and is given back by Revert, what it gives up becomes free at
// Commit. A kernel that is killed between the two leaves a record without a
// service, which the repair of the records removes (kernel/api/clusterips). A dry
// run looks at the same sets and changes nothing.
//
// The package must not import the API server or storage.
package ipalloc
