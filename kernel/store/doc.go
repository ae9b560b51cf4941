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
//   - Deletes, compaction and the steps to a delete have room when other writes are refused; what they free goes back to
//     the file system within a minute, at the cost of the history (relief.go).
//   - A write or sync that fails on disk ends Run with a *DiskError, since nobody knows then what is on disk; the next
//     start finds out, and loses nothing acknowledged.
//   - What is damaged is found by its checksum and reported with file, key and revision in a *CorruptError, by Open or
//     by the read that meets it. It is never served, nor is something older or nothing in its place.
//   - Steady rewriting takes a bounded part of the disk, and deleted keys stay deleted.
//
// # How data passes through
//
// Callers hand a Write to Commit. The writer goroutine (Run) takes all that wait, checks each against the in-memory
// index of live keys and the writes before it in the group, gives out revisions and writes the whole group as one
// Badger request, which costs one sync. Then it updates the index, hands the events to the publisher (the bus) and
// answers the callers. Values are kept as passed: neither side may change them afterwards.
//
// Keys on disk: 'd'+key holds a value, one Badger version a revision; 'h'+revision holds what a group changed, keyed
// by the group's last revision; 'm'+name holds meta data (format, compacted revision, a collection under way, dictionaries).
//
// Values of keys that have a dictionary (Config.Dictionaries) are stored as what they do not have in common with it
// (dictionary.go). Events, reads and backups have them whole.
//
// # Backups
//
// A backup (backupformat.go) is the state at a revision, the changes after it, or both: what the keys 'd' and 'h' hold,
// in the order in which a restore writes them. While it is taken, compaction stops at what it still reads (pins). A
// restore (restore.go) fills a database beside its place and renames it, so that there is a whole one or none. A store
// has an id of its own, also after a restore: the backups of two lines of history never mix.
//
// OpenReading (readonly.go) reads a directory offline without a change to it, Verify (verify.go) holds tables, values,
// history and index against each other.
//
// # Caveats
//
// Badger writes the entries of a group without order, so a crash can leave part of the last, unacknowledged group.
// The group's history entry lists everything that belongs to it; Open compares, and undoes a torn group by writing
// the former content over its entries and an empty group over its revisions (recovery.go).
//
// A damaged log reads like one that a crash has torn, so that the file COMMITTED keeps the last revision known to be
// durable (watermark.go). Of the very last group alone nobody can tell the two apart.
//
// Badger writes through mmap, which a full disk turns into SIGBUS; hence the log has its blocks ahead of the writes, and
// free space is checked before every group, with what a compaction would take (disk.go, reserve.go). Others can still
// take the room that a compaction under way counts on; the process then ends by that fault on a goroutine of Badger's,
// Fault makes a line of it (fault.go; kernel/lastwords is how it is told), and the next start names it, too.
//
// Badger passes over damage in silence in several places (it leaves out tables, ends iterations, gives empty values),
// so Open reads all tables first (inspect.go), and reads compare with the index and the history (damage.go, read.go).
// Not found at run time, but at the next start: damage that happens while the store runs, to former versions of a key
// that has changed since, in a listing of a former revision.
//
// The index holds every live key in memory (about 130 bytes each); values stay on disk.
//
// The package may import neither kernel/api nor anything of Kubernetes' kinds.
package store
