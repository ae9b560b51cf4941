// Package bus fans the store's committed revisions out to subscribers.
//
// # What it promises
//
// Each subscription sees every committed revision of its keys above the one it started from exactly once and in
// order, whether it comes from memory or is replayed from the store's history; there is no gap where the two meet.
// Publishing never waits for a subscriber. A subscriber that is slow keeps at most its buffer in memory: beyond, the
// bus drops what it holds for it and replays from the history as the subscriber comes back, until compaction has
// overtaken it, which it is told with a *store.CompactedError.
//
// # How data passes through
//
// The store's writer calls publish after each durable group, which adds the events to the recent ones. Then an event is
// looked up under its key and each of the key's prefixes that end in a slash, so that it touches only the subscriptions
// that want it; they get a pointer to the one shared event and a wake-up. With few subscriptions the writer does that
// itself; with many, a goroutine that lives as long as there is something to offer, so that a write does not wait for a
// thousand wake-ups. A subscriber takes what is there with Take when it is woken. Each subscription has a lock of its
// own: a thousand of them that take at the same time do not wait for each other, nor the writer for them.
//
// Stats and Collector tell about queues, lag and drops. A drop is counted under the subscription's kind and named in the
// log (dropped.go), ten lines a second at most.
//
// # Caveats
//
// Events are shared and must not be changed. A subscription is used by one goroutine at a time.
//
// It may import kernel/store only.
package bus
