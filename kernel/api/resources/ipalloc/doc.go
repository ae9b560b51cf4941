// Package ipalloc hands out the cluster IPs and node ports of services.
//
// An Allocator keeps which address and which port is taken in two bit sets in
// memory. It reads the stored services once, before the first allocation, and
// from then on each write goes through a Txn: what a Txn takes is taken at
// once, is given back by Revert, and what it gives up becomes free at Commit
// only. A dry run looks at the same sets and changes nothing.
//
// The network address and, in IPv4, the broadcast address are never given out;
// nor is the first address, unless asked for by name: it is the kubernetes
// service's. Dynamic allocation starts at a random place in the upper band and
// falls back to the lower, which is thereby mostly free for addresses that
// users choose (upstream's KEP-3070 and KEP-3668).
//
// Where several kernels allocate from one range, Claims decide (claims.go): a
// number is taken when its claim is won, and memory only says where to look
// first. Without them the Allocator is the only one of its range.
//
// The package must not import the API server or storage.
package ipalloc
