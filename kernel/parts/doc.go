// Package parts runs the pieces of a process: each on a goroutine of its own, started in
// order and stopped in reverse, with a deadline each.
//
// # How data passes through
//
// Start runs a piece. The first piece that ends by itself is told on Failed. Stop ends
// each piece by its context, waits for it, and lets it clear up before the one below ends.
//
// It imports nothing of Pintle.
package parts
