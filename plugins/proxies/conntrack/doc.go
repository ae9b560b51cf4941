// Package conntrack deletes flows from the kernel's table of tracked connections.
//
// # What it owns
//
// Which flows of services are stale (Stale), when they are deleted (Forgetter) and how often (Pace),
// and how flows are listed and deleted (Delete). How full the table is (Usage), and that this is
// said (Watch).
//
// # What it promises
//
// The kernel's table has as many flows as clients make, hundreds of thousands. They are looked
// at one by one, and what is kept at once is bounded: the memory of a process that deletes
// flows does not depend on who sends packets. Each question to the kernel has a limit of time.
//
// Data passes: the kernel's list → Flow → a caller's choice → deletions.
//
// It must not import kernel.
package conntrack
