// Package store is the kernel's durable memory: a map of keys to bytes with one global order of revisions, kept in
// Badger in managed mode.
//
// # What it owns
//
// The data directory's database, the revision counter, the history from which watches are replayed, compaction,
// expiry of keys with a time to live, the directory lock and the watch over free disk space. It knows bytes, not kinds.
//
// # What it promises
//
//   - Every commit gets the next revision, and that revision is Badger's commit timestamp of the entry. There are no
//     two commits of one revision and no commit between two consecutive ones.
//   - A write that was acknowledged was synced to disk before; it survives kill -9 and power loss.
//   - A write happens when its expectation of the key's revision holds (compare-and-swap), else a *ConflictError says
//     what is there.
//   - A revision becomes visible as a whole, after its sync and in order; readers never see an unsynced one.
//   - Every revision above the compacted one can be read and replayed, also after a restart. Below it, reads and
//     replays give a *CompactedError.
//   - A full or read-only disk makes writes fail with a *DiskError that names it; reads go on, and writes come back by
//     themselves when there is room.
//
// # How data passes through
//
// Callers hand a Write to Commit. The writer goroutine (Run) takes all that wait, checks each against the in-memory
// index of live keys and the writes before it in the group, gives out revisions and writes the whole group as one
// Badger request, which costs one sync. Then it updates the index, hands the events to the publisher (the bus) and
// answers the callers. Values are kept as passed: neither side may change them afterwards.
//
// Keys on disk: 'd'+key holds a value, one Badger version a revision; 'h'+revision holds what a group changed, keyed
// by the group's last revision; 'm'+name holds meta data (format, compacted revision).
//
// # Caveats
//
// Badger writes the entries of a group without order, so a crash can leave part of the last, unacknowledged group.
// The group's history entry lists everything that belongs to it; Open compares, and undoes a torn group by writing
// the former content over its entries and an empty group over its revisions (recovery.go). The same happens at run
// time after a failed sync.
//
// Badger writes through mmap, which a full disk turns into SIGBUS; hence free space is checked before every group
// (disk.go) and writes are refused while there is still room to flush.
//
// The index holds every live key in memory (about 100 bytes each); values stay on disk.
//
// The package may import neither kernel/api nor anything of Kubernetes' kinds.
package store
