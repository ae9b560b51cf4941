// Package crash kills a writing store at random points, takes from its disk what a power cut would have taken, starts it
// again and compares what is there with what was promised.
//
// # The two writers
//
// A child process (the test binary itself) writes either over kernel/store or through kernel/api/storage, with many
// writers, deletes, values of up to 600 KB (so that the value log takes part), small memory tables (so that flushes and
// compactions take part) and watches. Over a pipe it says what it plans (each write with its revision, before it is
// written), what was published, what was acknowledged and what each watch saw. The parent kills it with SIGKILL.
//
// # What the disk simulates
//
// The child runs under a seccomp filter that hands its msync, fsync and fdatasync calls to the parent before they are
// executed. The parent then knows, page by page (4 KiB), what is durable: the content of a file at its last sync. At a
// power cut the pages written since then are, each for itself and in no order, there, not there, or torn: a prefix of
// its 512-byte sectors is new. A sync that the kill interrupted counts as not done. Files opened with O_DSYNC lose
// nothing.
//
// Names and sizes of files go the way of a journal (ext4, xfs): every sync makes all creations, renames, deletions and
// truncations before it durable; those since the last sync are all there or all lost. File systems that need the
// directory synced for a new name, and disks that lie about a flush, are not simulated.
//
// # What is checked after each restart
//
//   - Every acknowledged and every published revision is there with its content, in the history and in the live state.
//   - The group that was in flight is there as a whole or not at all.
//   - No revision is there that nobody wrote; the next write gets the next revision.
//   - Watches that resume from their last revision see every event once, in order.
//   - State at former revisions is what it was.
//
// The seed is printed; CRASH_SEED repeats a run's choices (the scheduling of goroutines stays the machine's), and
// CRASH_ROUNDS says how many.
package crash
