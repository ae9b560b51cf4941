// Package maintenance is what an operator does with the embedded store: figures, compaction, reading keys and their
// history, backups, verification and moving to etcd.
//
// # What it owns
//
// The handler below /kernel/store/ of the API server, its client, the same operations on a data directory that no
// kernel has open, and what turns stored bytes into objects for a person's eye. The store itself does the work
// (kernel/store); the commands (cmd/pintle) do flags and printing.
//
// # What it promises
//
// A Source is the same to its user whether it is a running kernel (Dial) or a directory (OpenDirectory). A directory
// that is only read is not changed, and one that a kernel has open is refused with the kernel's pid.
//
// # Who may
//
// The handler lies behind the API server's authentication and authorization like any other path, as the
// nonResourceURL /kernel/store/*, with verb get for what reads and post for what changes. No role of the system names
// it, so that only system:masters and cluster-admin have it. Whoever may read it reads every Secret: a backup holds
// what the store holds.
//
// # Caveats
//
// A store in etcd is not this package's: Elsewhere answers for it, and says what to use instead.
//
// It imports kernel/api, for the types that are stored, kernel/api/etcd for its way to connect, kernel/store and
// kernel/bus; nothing of kernel imports it but the wiring in package kernel.
package maintenance
